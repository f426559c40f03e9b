#pragma once
// A valid value for every key that is not its default.

#include <map>
#include <string>

namespace troupe::config::test {

inline const std::map<std::string, std::string>& samples() {
  static const std::map<std::string, std::string> all{
    {"cluster.host", "10.0.0.1"},
    {"cluster.port", "5000"},
    {"cluster.workers", "7"},
    {"cluster.shards", "2"},
    {"cluster.rank", "3"},
    {"cluster.listen", "[::1]:4243"},
    {"cluster.evaluator", "true"},
    {"cluster.insecure-network", "true"},
    {"cluster.join-timeout", "12.5"},
    {"cluster.connect-timeout", "0.25"},
    {"cluster.liveness-timeout", "100000"},
    {"cluster.transport", "inproc"},
    {"training.network", "resnet20"},
    {"training.optimizer", "adamw"},
    {"training.lr", "0.1"},
    {"training.momentum", "0"},
    {"training.nesterov", "true"},
    {"training.weight-decay", "0.0005"},
    {"training.beta1", "0.8"},
    {"training.beta2", "0.99"},
    {"training.epsilon", "1e-07"},
    {"training.lr-schedule", "constant"},
    {"training.batch-size", "128"},
    {"training.epochs", "3"},
    {"training.max-steps", "1000"},
    {"training.target-accuracy", "0.97"},
    {"training.seed", "18446744073709551615"},
    {"training.device", "cuda:1"},
    {"training.dtype", "float64"},
    {"training.buffers", "first"},
    {"training.threads", "2"},
    {"training.train-dir", "runs/my lenet"},
    {"training.resume", "auto"},
    {"training.overwrite", "true"},
    {"training.tape", "true"},
    {"data.dataset", "mnist"},
    {"data.data-dir", "/data/mnist,v1(a)"},
    {"data.augment", "crop(padding=2)+flip"},
    {"data.image-size", "64"},
    {"data.on-bad-sample", "skip"},
    {"policy.name", "ssp"},
    {"policy.backup-workers", "2"},
    {"policy.late", "cancel"},
    {"policy.staleness", "0"},
    {"evaluation.eval-freq", "10"},
    {"evaluation.eval-batch-size", "32"},
    {"evaluation.eval-timeout", "5"},
    {"evaluation.follow", "runs/lenet/checkpoints"},
    {"checkpoint.checkpoint-freq", "25"},
    {"checkpoint.keep", "10"},
    {"simulation.clock", "virtual"},
    {"simulation.compute-time",
     "transient(base=gamma(mean=1,cv=0.1),p=0.05,factor=5)"},
    {"simulation.link-rate", "1250000000"},
    {"simulation.link-latency", "0.0001"},
    {"simulation.gradients", "none"},
    {"simulation.faults", "random(7)"},
  };
  return all;
}

} // namespace troupe::config::test
