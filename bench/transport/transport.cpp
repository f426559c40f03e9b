// Push and pull of a tensor over each path, compared with code written by hand.

#include "bench/topics.hpp"
#include "bench/transport/links.hpp"

#include <ATen/Parallel.h>

#include <string>

namespace troupe::bench {

namespace {

struct size {
  const char* name;
  size_t bytes;
  uint64_t round_trips; ///< Of one measurement, over all workers.
};

constexpr size small{"4KB", 4096, 8000};
constexpr size lenet{"1.7MB", 431'080 * 4, 600};
constexpr size resnet{"45MB", 11'173'962 * 4, 24};
constexpr size large{"400MB", 100'000'000 * 4, 4};

/// One path beside one reference.
class comparison {
public:
  comparison(const setting& how, report& out) : how_(how), out_(out) {
    // nop
  }

  void shared(const std::string& path, const size& model, size_t workers) {
    measure(path, model, workers, service::add, "shared-memory ring and add",
            shared_ring(model.bytes, workers));
  }

  /// Compares with a ring that keeps versions, too, which costs time by hand as
  /// well.
  void versions(const size& model, size_t workers) {
    measure("shm", model, workers, service::add, "the ring, to another version",
            shared_ring(model.bytes, workers, addition::to_a_version),
            "_versions");
  }

  void streamed(const std::string& path, const size& model, size_t workers) {
    measure(path, model, workers, service::echo, "raw TCP",
            raw_tcp(model.bytes, workers));
  }

private:
  void measure(const std::string& path, const size& model, size_t workers,
               service serves, const char* reference,
               std::unique_ptr<exchange> by_hand, const char* suffix = "") {
    auto ours = linked(path, model.bytes, workers, serves);
    auto each = how_.quick ? 1 : model.round_trips / workers;
    ours->run(1 + each / 10); // Takes memory; peers get to know their regions.
    by_hand->run(1 + each / 10);
    auto name =
      "transport/" + path + "/" + model.name + "/" + std::to_string(workers) +
      (serves == service::add ? "/push_add_pull" : "/push_pull") + suffix;
    auto found = alternate(how_.quick ? 1 : 7,
                           {[&] { ours->run(each); },
                            [&] {
                              by_hand->run(each);
                            }},
                           [&](size_t) { out_.progress(name); });
    auto rate = [&](const spent& x) {
      return static_cast<double>(each * workers) / x.seconds;
    };
    out_.add(compare(name, rate(found[0]), "1/s", reference, rate(found[1]),
                     better::higher));
  }

  const setting& how_;
  report& out_;
};

} // namespace

void measure_transport(const setting& how, report& out) {
  at::set_num_threads(1);
  comparison it{how, out};
  out.begin("push and pull on one host, the server adds (targets: 45 MB 0.8, "
            "1.7 MB 0.7; 4 KB 8,000/s with two workers)");
  for (const auto& what : {small, lenet, resnet})
    for (size_t workers : {1, 2}) {
      it.shared("shm", what, workers);
      it.shared("inproc", what, workers);
    }
  for (const auto& what : {lenet, resnet})
    it.versions(what, 2);
  out.begin(
    "push and pull over sockets, the server answers (targets: 400 MB and "
    "45 MB 0.8, 1.7 MB 0.6)");
  for (const auto& what : {small, lenet, resnet})
    for (size_t workers : {1, 2, 4})
      it.streamed("stream", what, workers);
  if (!how.quick)
    it.streamed("stream", large, 1);
}

} // namespace troupe::bench
