"""MAS over two tasks of three batches: SGD on the loss plus lambda sum Omega (theta - theta*)^2. Omega grows at the end
of a task by the mean over its batches of the absolute gradient of mean ||f(x)||^2, taken before each step."""
from common import *

draw = Draw(1)
RATE, STRENGTH = 0.05, 0.4
theta = draw.normal(PARAMETERS, scale=0.6)
at, star, omega, tasks = theta, theta, torch.zeros(PARAMETERS), []
for _ in range(2):
    importance, steps = torch.zeros(PARAMETERS), []
    for _ in range(3):
        batch = draw.batch(5)
        _, g = gradient(lambda t: (forward(t, batch["x"])[0] ** 2).sum(1).mean(), at)
        importance += g.abs() / 3
        _, at = sgd(at, lambda t: loss(t, batch) + STRENGTH * (omega * (t - star) ** 2).sum(), RATE)
        steps.append({"batch": batch, "theta": at})
    omega = omega + importance
    tasks.append({"steps": steps, "omega": omega})
    star = at
write(__file__, {"sizes": SIZES, "rate": RATE, "strength": STRENGTH, "theta": theta, "tasks": tasks})
