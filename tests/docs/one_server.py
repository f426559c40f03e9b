"""A server for a Python block that has only the worker: one_server.py [SETTING=VALUE...]"""

import sys

import troupe
from readers_program import data, model

settings = dict(x.split("=", 1) for x in sys.argv[1:])
sys.exit(troupe.serve(model, dataset_size=len(data), workers=1, **settings))
