"""SI over two tasks of three batches: SGD on the loss plus c sum Omega (theta - theta*)^2. The gain of a parameter is
minus the sum of the loss's own gradient times the move of each step; at the end of a task
Omega <- relu(Omega + gain / ((theta - theta*)^2 + xi))."""
from common import *

draw = Draw(2)
RATE, STRENGTH, XI = 0.1, 2.0, 0.01
theta = draw.normal(PARAMETERS, scale=0.6)
at, star, omega, tasks = theta, theta, torch.zeros(PARAMETERS), []
for _ in range(2):
    gain, steps = torch.zeros(PARAMETERS), []
    for _ in range(3):
        batch = draw.batch(5)
        _, g = gradient(lambda t: loss(t, batch), at)
        _, to = sgd(at, lambda t: loss(t, batch) + STRENGTH * (omega * (t - star) ** 2).sum(), RATE)
        gain, at = gain - g * (to - at), to
        steps.append({"batch": batch, "theta": at})
    omega = torch.relu(omega + gain / ((at - star) ** 2 + XI))
    tasks.append({"steps": steps, "gain": gain, "omega": omega})
    star = at
assert (tasks[0]["omega"] > 0).sum() > 20
write(__file__, {"sizes": SIZES, "rate": RATE, "strength": STRENGTH, "xi": XI, "theta": theta, "tasks": tasks})
