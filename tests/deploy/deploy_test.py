"""The files of config/deploy: validators read them, and their commands train a cluster.

Here is no Kubernetes, SkyPilot or dstack. So each process of a file is started on this
machine, as that launcher would start it: the same command and settings, with the
variables of the environment that its documents name. Only what is a place in that
cluster is another here: names of hosts, the port and the folders that are mounted.

The processes run in a network of their own, in which this machine has an address that
is not loopback. That needs root; without it the clusters are left out.

usage: deploy_test.py TRAINER_NODE ROOT [CASE...]
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

PATIENCE = 120  # s

#: Of all machines of the cluster.
HERE = "10.77.0.1"

#: What makes a run short.
SMALL = {"TROUPE_TRAINING_MAX_STEPS": "20", "TROUPE_CLUSTER_CONNECT_TIMEOUT": "30"}


class Folder:
    """Stands for what a cluster mounts, and for its network."""

    def __init__(self, trainer_node, path):
        self.trainer_node = trainer_node
        self.path = path
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        pki = str(path / "pki")
        self.run("pki", "init", "--out", pki)
        self.run("pki", "issue", "--out", pki, "--name", "tls", "--role", "ps,worker",
                 "--host", HERE)

    def run(self, *arguments):
        subprocess.run([self.trainer_node, *arguments], check=True, stdout=subprocess.DEVNULL)

    def here(self, text):
        """A command or a setting, with places of this machine."""
        for there, here in (
            (r"/etc/troupe/tls|\$\{CREDENTIALS_DIRECTORY\}|~/tls|^tls$",
             self.path / "pki/tls"),
            (r"/etc/troupe(?=/cluster)", self.path),
            (r"/runs\b|\$\{STATE_DIRECTORY\}", self.path / "runs"),
            (r"\b(4242|29400)\b", self.port),
            (r"\blenet-[a-z0-9-]+\.lenet\b", HERE),
        ):
            text = re.sub(there, str(here), text)
        return text

    def train(self, nodes):
        """Runs nodes, each a command and its variables, and checks the run."""
        running = []
        for number, (command, variables) in enumerate(nodes):
            words = [self.here(x) for x in command]
            log = self.path / f"node-{number}.log"
            environment = {
                "PATH": os.environ["PATH"],
                "GOMP_SPINCOUNT": "1000",
                **SMALL,
                **{k: self.here(v) for k, v in variables.items()},
            }
            with log.open("w") as out:
                running.append((log, subprocess.Popen(
                    [self.trainer_node, *words], cwd=self.path, env=environment,
                    stdout=out, stderr=out)))
        try:
            for log, node in running:
                status = node.wait(PATIENCE)
                assert status == 0, f"status {status}:\n{log.read_text()}"
        finally:
            for _, node in running:
                node.kill()
                node.wait()
        summary = json.loads(next(self.path.glob("runs/*/summary.json")).read_text())
        assert summary["status"] == "completed", summary
        assert summary["workers"] == len(nodes) - 1, summary


def documents_of(path):
    return list(yaml.safe_load_all(path.read_text()))


def kind(documents, name):
    return next(x for x in documents if x["kind"] == name)


def container_of(job):
    return job["template"]["spec"]["containers"][0]


def program_and_flags(text):
    """The flags of the trainer_node in a script's text."""
    joined = re.sub(r"\\\n\s*", " ", text)
    found = next(x for x in joined.splitlines() if "trainer_node " in x)
    return shlex.split(found.split("trainer_node ", 1)[1])


# -- what validators say ----------------------------------------------------------


def check_schema(document):
    """Strict: so a misspelt key is found, too."""
    import kubernetes_validate

    kubernetes_validate.validate(document, "1.37", strict=True)


def job(name, spec):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def validate_kubernetes(folder, root):
    """The parts of a JobSet and of a runtime are Jobs, whose schema is known."""
    for path in sorted((root / "config/deploy/kubernetes").glob("*.yaml")):
        for document in documents_of(path):
            nested = document["spec"] if document["kind"] == "JobSet" else (
                document["spec"]["template"]["spec"]
                if document["kind"] == "TrainingRuntime" else None)
            if nested:
                for part in nested["replicatedJobs"]:
                    check_schema(job(part["name"], part["template"]["spec"]))
            elif document["kind"] != "TrainJob":
                check_schema(document)


def validate_systemd(folder, root):
    """`systemd-analyze` says what is wrong and ends with 0."""
    if not shutil.which("systemd-analyze"):
        print("  left out: systemd-analyze is not installed")
        return
    for path in sorted((root / "config/deploy/systemd").iterdir()):
        unit = folder.path / path.name
        unit.write_text(path.read_text().replace(
            "/usr/local/bin/trainer_node", folder.trainer_node))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)],
                              capture_output=True, text=True)
        assert done.returncode == 0 and not done.stdout + done.stderr, done.stderr


def check_images(folder, root):
    """What the manifests want of a container is what the image has."""
    image = (root / "config/deploy/Dockerfile").read_text()
    assert image.count('ENTRYPOINT ["trainer_node"]') == 1
    assert image.count("USER 1000:1000") == 2
    for path in (root / "config/deploy/kubernetes").glob("*.yaml"):
        text = path.read_text()
        assert text.count("runAsUser: 1000") == 1, path
        assert "readOnlyRootFilesystem: true" in text, path


# -- clusters ---------------------------------------------------------------------


def put_settings(folder, documents):
    text = kind(documents, "ConfigMap")["data"]["cluster.ini"]
    (folder.path / "cluster.ini").write_text(folder.here(text))


def train_job(folder, root):
    documents = documents_of(root / "config/deploy/kubernetes/job.yaml")
    put_settings(folder, documents)
    spec = kind(documents, "Job")["spec"]
    args = container_of(spec)["args"]
    folder.train([(args, {"JOB_COMPLETION_INDEX": str(i)}) for i in range(spec["completions"])])


def train_jobset(folder, root):
    documents = documents_of(root / "config/deploy/kubernetes/jobset.yaml")
    put_settings(folder, documents)
    jobset = kind(documents, "JobSet")["spec"]
    coordinator = jobset["coordinator"]["replicatedJob"]
    nodes = []
    for part in jobset["replicatedJobs"]:
        spec = part["template"]["spec"]
        role = container_of(spec)["args"][1]
        assert (role == "ps") == (part["name"] == coordinator)
        nodes += [(container_of(spec)["args"], {})] * spec["completions"]
    folder.train(nodes)


def train_trainjob(folder, root):
    trainer = kind(documents_of(root / "config/deploy/kubernetes/trainjob.yaml"),
                   "TrainJob")["spec"]["trainer"]
    assert trainer["command"] == ["trainer_node"]
    size = trainer["numNodes"]
    folder.train([(trainer["args"],
                   {"PET_NODE_RANK": str(i), "PET_NNODES": str(size), "PET_NPROC_PER_NODE": "1",
                    "PET_MASTER_ADDR": "lenet-node-0-0.lenet", "PET_MASTER_PORT": "29400"})
                  for i in range(size)])


def train_sky(folder, root):
    task = yaml.safe_load((root / "config/deploy/sky.yaml").read_text())
    size = task["num_nodes"]
    flags = program_and_flags(task["run"])
    folder.train([(flags, {"SKYPILOT_NODE_RANK": str(i), "SKYPILOT_NUM_NODES": str(size),
                           "SKYPILOT_NODE_IPS": "\n".join([HERE] * size),
                           "SKYPILOT_NUM_GPUS_PER_NODE": "0",
                           "TROUPE_CLUSTER_PORT": str(folder.port)})
                  for i in range(size)])


def train_dstack(folder, root):
    task = yaml.safe_load((root / "config/deploy/dstack.yml").read_text())
    size = task["nodes"]
    flags = program_and_flags("\n".join(task["commands"]))
    folder.train([(flags, {"DSTACK_NODE_RANK": str(i), "DSTACK_NODES_NUM": str(size),
                           "DSTACK_MASTER_NODE_IP": HERE,
                           "DSTACK_NODES_IPS": "\n".join([HERE] * size),
                           "DSTACK_GPUS_PER_NODE": "0", "DSTACK_GPUS_NUM": "0",
                           "TROUPE_CLUSTER_PORT": str(folder.port)})
                  for i in range(size)])


def train_units(folder, root):
    (folder.path / "cluster.ini").write_text(
        f"[cluster]\nworkers = 2\nhost = {HERE}\nport = {folder.port}\n[training]\nepochs = 1\n")
    units = root / "config/deploy/systemd"
    server = program_and_flags((units / "troupe-server.service").read_text())
    worker = (units / "troupe-worker@.service").read_text()
    folder.train([(server, {})] + [(program_and_flags(worker.replace("%i", str(i))), {})
                                   for i in range(2)])


CHECKS = (validate_kubernetes, validate_systemd, check_images)
CLUSTERS = (train_job, train_jobset, train_trainjob, train_sky, train_dstack, train_units)

IN_NETWORK = "TROUPE_DEPLOY_TEST_IN_NETWORK"


def enter_network():
    """Begins this program again in a network of its own; false where that cannot be."""
    if os.environ.get(IN_NETWORK):
        return True
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    begin = f"ip link set lo up && ip address add {HERE}/32 dev lo && exec \"$@\""
    os.execvpe("unshare", ["unshare", "--net", "sh", "-c", begin, "sh", sys.executable, *sys.argv],
               {**os.environ, IN_NETWORK: "1"})


def main():
    trainer_node, root, *wanted = sys.argv[1:]
    cases = CHECKS + CLUSTERS
    if not enter_network():
        print("the clusters are left out: a network of their own needs root, and ip")
        cases = CHECKS
    for case in cases:
        if wanted and case.__name__ not in wanted:
            continue
        print(case.__name__, flush=True)
        with tempfile.TemporaryDirectory(prefix="troupe-deploy-") as path:
            case(Folder(trainer_node, Path(path)), Path(root).resolve())


if __name__ == "__main__":
    main()
