"""GDumb's dumb learner: four epochs of one batch each, the whole memory; the rate falls along a cosine from `rate` to a
hundredth of it."""
import math

from common import *

draw = Draw(6)
RATE, EPOCHS = 0.4, 4
theta = draw.normal(PARAMETERS, scale=0.6)
memory, at = draw.batch(6), theta
for epoch in range(EPOCHS):
    rate = RATE / 100 + (RATE - RATE / 100) * (1 + math.cos(math.pi * epoch / EPOCHS)) / 2
    _, at = sgd(at, lambda t: loss(t, memory), rate)
write(__file__, {"sizes": SIZES, "rate": RATE, "theta": theta, "memory": memory, "theta_trained": at})
