// A checkpoint, and what a server that resumes takes from its manifest. Input:
// a byte for how (below), the manifest's and the model's length in two bytes
// each, then manifest, model and optimizer.

#include "models/storage/checkpoint.hpp"

#include "actors/recording/run_statistics.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/server/restore_ledger.hpp"
#include "config/runs/earlier_run.hpp"
#include "config/text/value.hpp"
#include "messages/run_record.hpp"
#include "tests/fuzz/descriptions.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/temporary_folder.hpp"

#include <array>

namespace troupe::fuzz {

namespace {

namespace fs = std::filesystem;

/// Bits of the first byte.
enum checkpoint_option : uint8_t {
  right_sums = 1, ///< Sizes and checksums are put right.
  by_rank = 2,    ///< The cluster shares out its samples by rank.
  own_files = 4   ///< Each rank has files of its own.
};

constexpr uint64_t batch = 4;
constexpr uint32_t most_workers =
  1000; ///< A larger cluster takes longer alone.
constexpr uint32_t leases = 20;

struct files {
  std::string manifest, model, optimizer;
};

files take_files(bytes_view data) {
  auto manifest = take_number<uint16_t>(data);
  auto model = take_number<uint16_t>(data);
  files out;
  out.manifest = text_of(take_bytes(data, manifest));
  out.model = text_of(take_bytes(data, model));
  out.optimizer = text_of(data);
  return out;
}

std::string sum_of(const std::string& text) {
  auto sum = models::sha256_of(std::as_bytes(std::span{text}));
  return {reinterpret_cast<const char*>(sum.data()), sum.size()};
}

void put_right(proto::Manifest& manifest, const files& all) {
  for (auto& file : *manifest.mutable_files()) {
    const auto& content =
      file.name() == "model.safetensors" ? all.model : all.optimizer;
    file.set_size(content.size());
    file.set_sha256(sum_of(content));
  }
}

std::string with_right_sums(const files& all) {
  proto::Manifest manifest;
  auto body = all.manifest;
  if (manifest.ParseFromString(body)) {
    put_right(manifest, all);
    manifest.clear_self_sha256();
    body = manifest.SerializeAsString();
  }
  proto::Manifest seal;
  seal.set_self_sha256(sum_of(body));
  return body + seal.SerializeAsString();
}

void write(const fs::path& folder, files all, bool right) {
  testing::spill(folder / "manifest.pb",
                 right ? with_right_sums(all) : all.manifest);
  testing::spill(folder / "model.safetensors", all.model);
  testing::spill(folder / "optimizer.safetensors", all.optimizer);
}

/// The parts of a server with the settings of the checkpoint, as far as it has
/// them.
parameter_server_parts
parts_of(const std::shared_ptr<const models::loaded_checkpoint>& from,
         uint8_t options) {
  parameter_server_parts out;
  const auto& saved = from->manifest.ledger();
  out.from.resumed = from;
  out.description.life = 1;
  out.settings.training.batch_size = batch;
  if ((options & by_rank) == 0) {
    out.data.samples = saved.samples();
    return out;
  }
  auto& data = out.settings.data;
  data.sharding = (options & own_files) == 0 ? config::sharding_kind::fixed
                                             : config::sharding_kind::local;
  data.drop_last = saved.sharding().ends_with(" drop-last");
  out.data.samples = (options & own_files) == 0 ? saved.shared_samples() : 0;
  out.settings.cluster.workers = std::clamp(saved.workers(), 1u, most_workers);
  return out;
}

/// Checks that leases are good, and that those which are out when the ledger is
/// saved come back.
void deal_out(const parameter_server_parts& parts) {
  auto ledger = make_ledger(parts);
  proto::DataLedger before;
  fill_ledger(parts, ledger, before);
  auto known = data_of_ranks(parts.from.resumed->manifest.ledger());
  for (uint32_t i = 0; i < leases; ++i) {
    worker_id who{i % parts.settings.cluster.workers};
    if (ledger.has_parts() && !known.contains(who))
      continue;
    ledger.enter(who);
    auto lease = ledger.grant(who).value();
    auto samples =
      ledger.has_parts() ? known.at(who).samples : ledger.samples();
    require(lease.count > 0 && lease.count <= batch && lease.first < samples &&
              lease.count <= samples - lease.first,
            "a lease lies in the data set");
    require(i % 2 == 0 ? ledger.give_back(lease.id) : ledger.settle(lease.id),
            "a lease is out until it is settled");
  }
  proto::DataLedger after;
  fill_ledger(parts, ledger, after);
}

/// Reads the settings as a start does that goes on with the run.
void adopt(const proto::Manifest& from) {
  config::earlier_run run{"step-7", from.config_ini(), true};
  auto given = config::from_run(run, {}, config::role::simulate);
  auto here = config::resolve(given);
  config::require_same(here, run, {});
  compare(description_of(from), config::shared_settings(here.values));
}

bool resume(std::shared_ptr<const models::loaded_checkpoint> from,
            uint8_t options) {
  taken([&] { adopt(from->manifest); });
  recording::run_statistics statistics{4};
  statistics.load(from->manifest.counters());
  auto parts = parts_of(from, options);
  auto none = parts.data.samples == 0 &&
              parts.settings.data.sharding != config::sharding_kind::local;
  return !none && taken([&] { deal_out(parts); });
}

} // namespace

bool checkpoint(bytes_view data) {
  static testing::temporary_folder folder;
  auto options = take_number<uint8_t>(data);
  write(folder.path(), take_files(data), (options & right_sums) != 0);
  std::shared_ptr<const models::loaded_checkpoint> found;
  auto read = taken([&] {
    found = std::make_shared<models::loaded_checkpoint>(
      models::read_checkpoint(folder.path()));
  });
  auto manifest = taken([&] { models::read_manifest(folder.path()); });
  require(!read || manifest, "the manifest of a good checkpoint is good");
  return read && resume(found, options);
}

} // namespace troupe::fuzz
