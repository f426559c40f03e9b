"""A worker for a Python block that has only the server."""

import troupe
from readers_program import data, loss_fn, model

with troupe.Worker(model, dataset_size=len(data)) as worker:
    for x, y in worker.loader(data):
        loss = loss_fn(model(x), y)
        loss.backward()
        worker.step(loss)
