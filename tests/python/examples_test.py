"""The examples of the package, at a small size."""

import csv
import random
import sys
import unittest

import cluster
import torch
import torchvision
import troupe

EXAMPLES = cluster.HERE.parents[1] / "python" / "examples"


class Examples(cluster.Case):
    def train(self, script, data, *flags):
        """Runs it with two workers; the losses of the first step and the last."""
        command = [sys.executable, EXAMPLES / script]
        server = self.start("server", [*command, "serve", data, "--port", 0, *flags])
        port = server.await_line(r"listening +on 127\.0\.0\.1:(\d+)").group(1)
        workers = [
            self.start(f"worker-{i}", [*command, data, "--port", port, *flags])
            for i in range(2)
        ]
        for process in [*workers, server]:
            self.require_end(process)
        (found,) = (self.folder / "runs").glob("*/summary.json")
        self.run = troupe.Run(found.parent)
        losses = [line["loss"] for line in self.run.metrics() if line["kind"] == "update"]
        return losses[0], sum(losses[-5:]) / 5

    def test_gpt(self):
        self.train_gpt()

    def test_gpt_with_local_steps(self):
        self.train_gpt("--local-steps", 5)

    def train_gpt(self, *flags):
        text = cluster.HERE.parents[1] / "docs" / "policies.md"
        first, last = self.train(
            "gpt.py", text, "--length", 32, "--width", 32, "--depth", 2, "--heads", 2,
            "--epochs", 6, "--batch", 16, "--lr", 0.01, *flags,
        )
        self.assertGreater(first, 4.5)
        self.assertLess(last, 4)
        weights = self.run.state_dict("last")
        self.assertTrue(torch.equal(weights["head.weight"], weights["embed.weight"]))

    def test_table(self):
        random.seed(3)
        table = self.folder / "table.csv"
        with open(table, "w", newline="") as out:
            rows = csv.writer(out)
            rows.writerow(["size", "rooms", "age", "price"])
            for _ in range(500):
                size, rooms, age = (random.uniform(1, 9) for _ in range(3))
                rows.writerow([size, rooms, age, size * rooms - 2 * age])
        first, last = self.train("table.py", table, "--epochs", 30)
        self.assertGreater(first, 0.5)
        self.assertLess(last, 0.05)

    def pictures(self):
        """Two classes, told by their colour."""
        random.seed(4)
        for kind in ("blue", "red"):
            folder = self.folder / "pictures" / kind
            folder.mkdir(parents=True)
            for number in range(48):
                pixels = torch.rand(3, 40, 40) * 0.5
                pixels[0 if kind == "red" else 2] += 0.5
                torchvision.utils.save_image(pixels, folder / f"{number}.png")
        return self.folder / "pictures"

    def test_pictures(self):
        first, last = self.train(
            "pictures.py", self.pictures(), "--side", 32, "--epochs", 3, "--batch", 8,
            "--loaders", 1,
        )
        self.assertLess(last, first)
        self.assertEqual(self.run.summary["samples_applied"], 3 * 96)

    def test_finetuning(self):
        data = self.pictures()
        torch.manual_seed(9)
        body = torchvision.models.resnet18()
        torch.save(body.state_dict(), self.folder / "body.pt")
        first, last = self.train(
            "pictures.py", data, "--side", 32, "--epochs", 6, "--batch", 8, "--loaders", 0,
            "--finetune", "--weights", self.folder / "body.pt",
        )
        self.assertLess(last, first)
        trained = self.run.state_dict("last")
        for name, value in body.state_dict().items():
            if not name.startswith("fc.") and value.is_floating_point():
                self.assertTrue(torch.equal(trained[name], value), name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
