// Tensors over TLS, compared with OpenSSL alone and with plain connections.

#include "apps/pki/authority.hpp"
#include "apps/scratch_folder.hpp"
#include "bench/topics.hpp"
#include "bench/train/contenders.hpp"
#include "bench/transport/links.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/tls/tls_identity.hpp"

#include <ATen/Parallel.h>
#include <sched.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <string>

namespace troupe::bench {

namespace {

constexpr size_t lenet_bytes = 431'080 * 4;
constexpr size_t resnet_bytes = 11'173'962 * 4;

/// A folder for --tls-dir whose certificate may be all: server and worker.
class node_certificate {
public:
  node_certificate() {
    app::certificate_draft draft;
    app::set_dates(draft, 1, nullptr);
    draft.name = "bench CA";
    draft.is_authority = true;
    auto authority = app::make_holder(draft, nullptr);
    draft.name = "bench";
    draft.is_authority = false;
    draft.hosts = {"127.0.0.1"};
    draft.roles = {"ps", "worker", "evaluator"};
    auto node = app::make_holder(draft, &authority);
    write("ca.crt", app::to_pem(authority.certificate.get()));
    write("tls.crt", app::to_pem(node.certificate.get()));
    write("tls.key", app::to_pem(node.key.get()));
    std::filesystem::permissions(folder() / "tls.key",
                                 std::filesystem::perms::owner_read);
  }

  const std::filesystem::path& folder() const { return scratch_.path(); }

  certificate_files files() const {
    return {folder() / "tls.crt", folder() / "tls.key"};
  }

  transport::credentials credentials() const {
    return {std::make_shared<transport::tls_identity>(
              transport::terms_of_folder(folder())),
            {}};
  }

private:
  void write(const char* name, const std::string& text) {
    std::ofstream{folder() / name} << text;
  }

  app::scratch_folder scratch_;
};

struct transfer {
  const char* name;
  size_t bytes;
  uint64_t round_trips; ///< Of one measurement, over all workers.
  size_t workers;

  double megabytes() const {
    return 2e-6 * static_cast<double>(bytes * round_trips);
  }
};

class encrypted_exchange {
public:
  encrypted_exchange(const setting& how, report& out) : how_(how), out_(out) {
    // nop
  }

  void beside_openssl(transfer job) {
    job = shortened(job);
    auto by_hand = raw_tls(job.bytes, job.workers, own_.files());
    auto name = "transport/stream_tls/" + title(job) + "/push_pull";
    auto found = run(name, job, *by_hand);
    auto cpu = [&](const spent& x) {
      return 1e3 * x.cpu_seconds / job.megabytes();
    };
    out_.add(compare(name + "_cpu", cpu(found[0]), "ms/MB", "OpenSSL alone",
                     cpu(found[1]), better::lower));
  }

  void beside_plain(transfer job, const std::string& line) {
    job = shortened(job);
    auto plain = linked("stream", job.bytes, job.workers, service::echo);
    run("transport/stream_tls/" + title(job) + "/" + line, job, *plain,
        "plain stream");
  }

private:
  static std::string title(const transfer& job) {
    return job.name + ("/" + std::to_string(job.workers));
  }

  transfer shortened(transfer job) const {
    if (how_.quick)
      job.round_trips = job.workers;
    return job;
  }

  std::vector<spent> run(const std::string& name, const transfer& job,
                         exchange& other,
                         const char* reference = "OpenSSL alone") {
    auto ours = linked("stream", job.bytes, job.workers, service::echo,
                       own_.credentials());
    auto each = job.round_trips / job.workers;
    ours->run(1 + each / 10);
    other.run(1 + each / 10);
    auto found = alternate(how_.quick ? 1 : 7,
                           {[&] { ours->run(each); },
                            [&] {
                              other.run(each);
                            }},
                           [&](size_t) { out_.progress(name); });
    auto rate = [&](const spent& x) {
      return static_cast<double>(each * job.workers) / x.seconds;
    };
    out_.add(compare(name, rate(found[0]), "1/s", reference, rate(found[1]),
                     better::higher));
    return found;
  }

  const setting& how_;
  report& out_;
  node_certificate own_;
};

/// Puts this thread, and those that it starts, into a network of their own
/// whose loopback has this rate. False if the system does not let it.
bool enter_network(const std::string& rate) {
  return unshare(CLONE_NEWNET) == 0 &&
         std::system(
           ("ip link set lo up && tc qdisc add dev lo root tbf rate " + rate +
            " burst 256kb latency 100ms")
             .c_str()) == 0;
}

void measure_runs(const setting& how, report& out) {
  node_certificate own;
  auto plain = lenet_run();
  plain.flags = {"--transport", "stream"};
  auto encrypted = plain;
  encrypted.environment = {"TROUPE_CLUSTER_TLS_DIR=" + own.folder().string()};
  contenders with{how, encrypted}, without{how, plain};
  auto found = alternate("train/lenet over TLS",
                         {{"TLS",
                           [&] {
                             return with.in_processes("async");
                           }},
                          {"plain",
                           [&] {
                             return without.in_processes("async");
                           }}},
                         how.quick ? 1 : plain.rounds, out);
  out.add(compare("transport/stream_tls/lenet/async", found[0], "samples/s",
                  "plain stream", found[1], better::higher));
}

} // namespace

void measure_encryption(const setting& how, report& out) {
  at::set_num_threads(1);
  encrypted_exchange it{how, out};
  out.begin("push and pull over TLS (targets: 0.9 of OpenSSL alone; 0.95 of "
            "plain connections on a line of 1 Gbit/s, 0.8 in a run)");
  for (size_t workers : {1, 2}) {
    it.beside_openssl({"1.7MB", lenet_bytes, 300, workers});
    it.beside_openssl({"45MB", resnet_bytes, 12, workers});
  }
  it.beside_plain({"45MB", resnet_bytes, 12, 1}, "loopback");
  std::async(std::launch::async, [&] {
    if (!enter_network("1gbit"))
      return out.begin("left out: a line of 1 Gbit/s needs root, ip and tc");
    it.beside_plain({"1.7MB", lenet_bytes, 60, 1}, "1Gbit");
    it.beside_plain({"45MB", resnet_bytes, 4, 1}, "1Gbit");
  }).get();
  measure_runs(how, out);
}

} // namespace troupe::bench
