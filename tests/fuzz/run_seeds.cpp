#include "actors/log_files/event_log_file.hpp"
#include "actors/recording/metrics_log.hpp"
#include "config/report/report.hpp"
#include "messages/run_record.hpp"
#include "tests/fuzz/descriptions.hpp"
#include "tests/fuzz/seeds.hpp"
#include "tests/models/checkpoint_samples.hpp"
#include "tests/support/metrics.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/zip_archive.hpp"

#include <vector>

namespace troupe::fuzz {

using testing::slurp;
using testing::temporary_folder;

namespace {

inputs safetensors_seeds() {
  temporary_folder folder;
  testing::sample_tensors tensors{7};
  inputs out;
  auto write = [&](const std::string& name, const auto& all,
                   const models::tensor_metadata& about) {
    models::output_file file{folder / name};
    models::write_safetensors(file, all, about);
    file.finish();
    out[name] = slurp(folder / name);
  };
  write("weights", tensors.weights, {{"format", "pt"}, {"step", "7"}});
  write("slots", tensors.slots, {});
  write("described", tensors.weights,
        {{"troupe.frozen", tensors.weights[0].name},
         {"troupe.shared", "\"a = b\\n\" = " + tensors.weights[0].name},
         {"troupe.groups", "\"c\" = lr=1\nd = lr=2"}});
  write("none", std::vector<models::named_tensor>{}, {});
  return out;
}

// -- weights of others ------------------------------------------------------

/// A state dict, within a checkpoint and as it is; files and their pickles.
inputs weights_seeds() {
  using testing::pickled;
  using testing::pickled_items;
  using testing::pickled_text;
  std::string storage(24, '\1');
  auto whole = pickled({"0", 6, {2, 3}, {3, 1}});
  auto strided = pickled({"0", 6, {2, 3}, {1, 2}});
  auto parameter = "ctorch._utils\n_rebuild_parameter\n(" + whole +
                   "\x88"
                   "ccollections\nOrderedDict\n)RtR";
  auto state = pickled_items({{"module.a", whole}, {"module.b", strided}});
  auto checkpoint = testing::whole_pickle(
    pickled_items({{"epoch", "K\3"},
                   {"best", "G\x3f\xe0" + std::string(6, '\0')},
                   {"arch", pickled_text("net")},
                   {"state_dict", state},
                   {"optimizer", pickled_items({{"state", "}"}})}}));
  auto plain =
    testing::whole_pickle(pickled_items({{"a", whole}, {"b", parameter}}));
  return {
    {"file", std::string(1, '\0') + testing::torch_file(plain, {storage})},
    {"pickle", "\1" + plain},
    {"checkpoint", "\1" + checkpoint}};
}

// -- checkpoints --------------------------------------------------------------

void open_epoch(google::protobuf::RepeatedPtrField<proto::OpenEpoch>& to,
                uint64_t number) {
  auto* epoch = to.Add();
  epoch->set_number(number);
  for (uint64_t first : {3, 12}) {
    auto* range = epoch->add_unsettled();
    range->set_first(first);
    range->set_count(5);
  }
}

void share_out(proto::DataLedger& to, bool own_files) {
  to.set_sharding(own_files ? "local" : "static");
  to.set_workers(3);
  to.set_shared_samples(own_files ? 0 : 60);
  to.set_epochs_completed(1);
  for (uint32_t rank : {0u, 2u}) {
    auto* part = to.add_parts();
    part->set_part(rank);
    part->set_samples(20);
    part->set_digest(own_files ? 77 : 0);
    part->set_epochs_opened(2);
    open_epoch(*part->mutable_open_epochs(), 1);
  }
}

proto::Manifest manifest_of(uint8_t how) {
  auto out = testing::sample_manifest(7);
  out.set_dataset("digits");
  out.set_config_ini(config::to_ini({}));
  if (how % 2 != 0) // Those of release 0.1.0 have none.
    put(sample_description({}), *out.mutable_description());
  out.mutable_policy()->set_name("sync");
  out.mutable_policy()->set_state("sync v=7");
  out.mutable_optimizer()->set_name("sgd");
  auto* counters = out.mutable_counters();
  counters->add_staleness_histogram(28);
  counters->set_best_accuracy(0.5);
  counters->set_best_step(5);
  for (uint32_t rank : {0u, 1u})
    counters->add_workers()->set_worker(rank);
  auto* ledger = out.mutable_ledger();
  if (how > 1) {
    share_out(*ledger, how == 7);
    return out;
  }
  ledger->set_samples(20);
  ledger->set_epochs_opened(2);
  open_epoch(*ledger->mutable_open_epochs(), 1);
  return out;
}

/// `how` as the target has it.
std::string checkpoint_seed(uint8_t how) {
  temporary_folder folder;
  testing::sample_tensors tensors{7};
  auto path = models::write_checkpoint(folder.path(), manifest_of(how),
                                       {tensors.weights, tensors.slots});
  auto manifest = slurp(path / "manifest.pb");
  auto model = slurp(path / "model.safetensors");
  // Where they are put right, what is sealed is made anew.
  if (how != 0)
    manifest.resize(manifest.size() - 35);
  return number(how) + number(static_cast<uint16_t>(manifest.size())) +
         number(static_cast<uint16_t>(model.size())) + manifest + model +
         slurp(path / "optimizer.safetensors");
}

// -- event logs
// --------------------------------------------------------------------

using events = std::vector<proto::LogEvent>;

void put_lease(proto::LogLease& to) {
  to.set_id(1);
  to.set_first(12);
  to.set_count(4);
}

void put_decision(proto::LogDecision& to, bool stops) {
  auto* update = to.add_updates();
  update->set_makes(1);
  update->add_gradients()->set_sequence(1);
  if (stops) {
    to.set_stop("max-steps");
    return;
  }
  auto* release = to.add_releases();
  release->set_worker(0);
  put_lease(*release->add_leases());
  to.add_drops()->set_staleness(2);
  to.add_cancels(1);
}

events log_events() {
  events all;
  auto next = [&]() -> proto::LogEvent& {
    auto& event = all.emplace_back();
    event.set_time_ns(static_cast<int64_t>(all.size()) * 1000);
    return event;
  };
  auto& begin = *next().mutable_begin();
  begin.set_format_version(recording::event_log_format);
  begin.set_troupe_version("0.1.0");
  begin.set_config_ini(config::to_ini({}));
  begin.set_life(1);
  put(sample_description({}), *begin.mutable_description());
  begin.set_samples(60);
  next().mutable_started();
  next().mutable_enlisted()->set_life(1);
  next().mutable_joined()->add_workers(0);
  next().mutable_pulled()->set_life(1);
  for (auto stops : {false, true}) {
    auto& event = next();
    auto& arrived = *event.mutable_arrived();
    arrived.set_sequence(1);
    put_lease(*arrived.mutable_lease());
    arrived.set_loss(0.5);
    put_decision(*event.mutable_decision(), stops);
  }
  next().mutable_left()->set_reason("gone");
  next().mutable_scored()->set_accuracy_top5(0.5);
  next().mutable_evaluators()->set_count(1);
  next().mutable_ended()->set_status("completed");
  return all;
}

inputs event_log_seeds() {
  temporary_folder folder;
  auto all = log_events();
  std::string one_by_one(1, '\1');
  {
    recording::event_log_file file{folder / "tape"};
    for (auto& event : all) {
      file.write(event);
      auto body = event.SerializeAsString();
      one_by_one += number(static_cast<uint16_t>(body.size())) + body;
    }
  }
  return {{"file", std::string(1, '\0') + slurp(folder / "tape")},
          {"events", one_by_one}};
}

inputs metrics_seeds() {
  temporary_folder folder;
  using recording::metrics_log;
  {
    metrics_log log{folder / "metrics", metrics_log::mode::fresh};
    recording::applied_gradient gradient{worker_id{1}, 2, 8};
    log.update({7, 0.5, 1.25, 0.1, 0.01, {&gradient, 1}});
    log.evaluation({7, 1, 360, testing::found(0.75)});
    log.epoch(7, 1, 0);
    log.warning(7, 1, "\"of\\no\ninterest\"");
  }
  return {{"metrics", slurp(folder / "metrics")}};
}

} // namespace

inputs run_seeds(std::string_view format) {
  if (format == "safetensors")
    return safetensors_seeds();
  if (format == "weights")
    return weights_seeds();
  if (format == "checkpoint")
    return {{"as-it-is", checkpoint_seed(0)},
            {"leased", checkpoint_seed(1)},
            {"by-rank", checkpoint_seed(3)},
            {"own-files", checkpoint_seed(7)}};
  if (format == "tape")
    return event_log_seeds();
  if (format == "metrics")
    return metrics_seeds();
  return {};
}

} // namespace troupe::fuzz
