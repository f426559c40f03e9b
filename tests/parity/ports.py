"""Ports for programs that a test starts."""

import random
import socket


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port():
    """A free port below those that the system gives to outgoing connections. The next
    one is free, too: below torchrun, Troupe's server listens there."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(10000, 32000)
        if is_free(port) and is_free(port + 1):
            return port
    raise RuntimeError("there are no two free ports beside each other")
