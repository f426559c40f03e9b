#include "config/report/report.hpp"
#include "tests/config/samples.hpp"
#include "tests/fuzz/seeds.hpp"

namespace troupe::fuzz {

namespace {

constexpr const char* by_hand =
  "\xef\xbb\xbf# a run\r\n"
  "[training]\r\n"
  "network = resnet20   ; of He et al.\r\n"
  "lr=0.1\r\n"
  "lr-schedule = multi-step(at=30+60,factor=0.2)\r\n"
  "\r\n"
  "[data]\r\n"
  "data-dir = \"/data/my \\\"own\\\" set; all\"\r\n"
  "dataset = cifar10\r\n"
  "[policy]\r\n"
  "name = ssp\r\n"
  "[training]\r\n"
  "epochs = 3\r\n";

config::settings simulated() {
  config::settings out;
  out.policy.name = "async";
  out.simulation.clock = config::clock_kind::virtual_time;
  out.simulation.compute_time = "slow(base=gamma(mean=1,cv=0.1),worker=0,"
                                "factor=2)";
  return out;
}

inputs settings_seeds() {
  inputs out;
  for (const auto& [id, value] : config::test::samples())
    out[id] = id + "=" + value;
  size_t count = 0;
  for (const char* text :
       {"training.lr-schedule=cosine(min=0.001)",
        "training.lr-schedule=multi-step(at=30+60.5,factor=0.1)",
        "training.network=script:models/net.pt",
        "data.dataset=synthetic",
        "data.dataset=synthetic(shape=3x32x32,classes=10,samples=5000)",
        "data.dataset=tar(train=t-{000..146}.tar,val=v-{0..6}.tar)",
        "data.augment=auto",
        "data.augment=resized-crop(min-scale=0.2)+jitter(hue=0.1)+flip(p=0.5)",
        "data.augment=jitter(brightness=0.4,hue=0.1)",
        "cluster.compression=topk(share=0.05)",
        "simulation.compute-time=exp(offset=0.5,mean=1)",
        "simulation.compute-time=pareto(alpha=2,mean=1)",
        "simulation.compute-time=constant(1)",
        "simulation.faults=random(seed=7,faults=6,until=40)",
        "evaluation.eval-freq=epoch",
        "crash(worker=3,restart=4)",
        "crash-server(restart=3)",
        "fail-server(restart=3)",
        "slow(worker=1,factor=5,for=10)",
        "cut(worker=2,for=8)",
        "delay(worker=0,by=2,for=10)",
        "duplicate(worker=0,after=1,for=10)",
        "# s what\n5 crash(worker=3)\n12.5  cut(worker=2,for=8) # gone\n"})
    out["grammar-" + std::to_string(count++)] = text;
  return out;
}

} // namespace

inputs text_seeds(std::string_view format) {
  if (format == "ini")
    return {{"defaults", config::to_ini({})},
            {"by-hand", by_hand},
            {"simulated", config::to_ini(simulated())}};
  if (format == "settings")
    return settings_seeds();
  return {};
}

} // namespace troupe::fuzz
