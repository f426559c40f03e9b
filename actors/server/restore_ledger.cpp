#include "actors/server/restore_ledger.hpp"

#include "actors/server/parameter_server.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"

#include <utility>

namespace troupe {

namespace {

using epoch_list = google::protobuf::RepeatedPtrField<proto::OpenEpoch>;

cores::ledger_state state_of(const epoch_list& epochs, uint64_t opened) {
  cores::ledger_state state;
  state.next_epoch = opened;
  for (const auto& epoch : epochs) {
    auto& open = state.epochs.emplace_back();
    open.number = epoch.number();
    for (const auto& range : epoch.unsettled())
      open.unsettled.push_back({range.first(), range.count()});
  }
  return state;
}

/// How the data is shared out, in the form that a manifest has.
std::string sharding_of(const config::data_settings& data) {
  return config::print(data.sharding) + (data.drop_last ? " drop-last" : "");
}

/// "leased", "static for 4 workers"
std::string in_words(const std::string& sharding, uint32_t workers) {
  auto result = sharding.empty() ? "leased" : sharding;
  if (result != "leased")
    result += " for " + std::to_string(workers) + " workers";
  return result;
}

[[noreturn]] void refuse_samples(const parameter_server_parts& parts,
                                 uint64_t before) {
  throw run_error(
    parts.from.resumed->path.string() + ": made with " +
    std::to_string(before) + " training samples, this data set has " +
    std::to_string(parts.data.samples) + "; resume with the same data");
}

cores::lease_ledger make_shared_ledger(const parameter_server_parts& parts) {
  auto batch = parts.settings.training.batch_size;
  if (!parts.from.resumed)
    return {parts.data.samples, batch};
  const auto& saved = parts.from.resumed->manifest.ledger();
  auto state = state_of(saved.open_epochs(), saved.epochs_opened());
  auto ledger = cores::lease_ledger::restore(parts.data.samples, batch, state);
  if (!ledger || saved.samples() != parts.data.samples)
    refuse_samples(parts, saved.samples());
  return *ledger;
}

/// Samples in a part of shared data; 0 where each worker reads its own.
uint64_t size_of_share(const parameter_server_parts& parts) {
  const auto& data = parts.settings.data;
  auto workers = parts.settings.cluster.workers;
  if (data.sharding == config::sharding_kind::local)
    return 0;
  auto result =
    cores::samples_of_part(parts.data.samples, workers, data.drop_last);
  if (result == 0)
    throw usage_error("--drop-last leaves nothing of " +
                      std::to_string(parts.data.samples) + " samples for " +
                      std::to_string(workers) + " workers");
  return result;
}

cores::data_ledger make_parts(const parameter_server_parts& parts) {
  cores::data_ledger result{parts.settings.cluster.workers,
                            parts.settings.training.batch_size};
  if (auto samples = size_of_share(parts); samples > 0)
    for (uint32_t rank = 0; rank < parts.settings.cluster.workers; ++rank)
      result.own(worker_id{rank}, {samples, 0});
  return result;
}

cores::data_ledger resume_parts(const parameter_server_parts& parts) {
  const auto& saved = parts.from.resumed->manifest.ledger();
  if (saved.shared_samples() != parts.data.samples)
    refuse_samples(parts, saved.shared_samples());
  cores::parts_state state;
  state.completed = saved.epochs_completed();
  state.parts.resize(saved.workers());
  auto sound = true;
  for (const auto& one : saved.parts()) {
    sound = sound && one.part() < saved.workers();
    if (!sound)
      break;
    auto ledger = state_of(one.open_epochs(), one.epochs_opened());
    ledger.left_out = one.left_out();
    state.parts[one.part()] = cores::parts_state::part{
      {one.samples(), one.digest()}, std::move(ledger)};
  }
  auto result =
    cores::data_ledger::restore(state, parts.settings.training.batch_size);
  if (!result || !sound)
    throw run_error(parts.from.resumed->path.string() +
                    ": its account of samples is damaged; resume from an "
                    "earlier checkpoint");
  return *result;
}

/// A checkpoint can only be continued with the same sharing of the data,
/// because positions depend on it. The settings in it were compared before;
/// this checks the ledger itself.
void require_same_sharding(const parameter_server_parts& parts) {
  const auto& saved = parts.from.resumed->manifest.ledger();
  auto here =
    in_words(sharding_of(parts.settings.data), parts.settings.cluster.workers);
  auto there = in_words(saved.sharding(), saved.workers());
  if (here != there)
    throw run_error(parts.from.resumed->path.string() +
                    ": its samples are shared out as " + there +
                    ", those of this run as " + here +
                    "; resume with the same --sharding, --drop-last and "
                    "--workers");
}

void fill_epochs(const cores::ledger_state& state, epoch_list& out) {
  for (const auto& epoch : state.epochs) {
    auto* open = out.Add();
    open->set_number(epoch.number);
    for (const auto& range : epoch.unsettled) {
      auto* unsettled = open->add_unsettled();
      unsettled->set_first(range.first);
      unsettled->set_count(range.count);
    }
  }
}

void fill_parts(const cores::parts_state& state, proto::DataLedger& out) {
  out.set_workers(static_cast<uint32_t>(state.parts.size()));
  for (uint32_t rank = 0; rank < state.parts.size(); ++rank) {
    const auto& from = state.parts[rank];
    if (!from)
      continue;
    auto* to = out.add_parts();
    to->set_part(rank);
    to->set_samples(from->data.samples);
    to->set_digest(from->data.digest);
    to->set_epochs_opened(from->ledger.next_epoch);
    to->set_left_out(from->ledger.left_out);
    fill_epochs(from->ledger, *to->mutable_open_epochs());
  }
}

} // namespace

cores::data_ledger make_ledger(const parameter_server_parts& parts) {
  if (parts.from.resumed)
    require_same_sharding(parts);
  if (parts.settings.data.sharding == config::sharding_kind::leased)
    return make_shared_ledger(parts);
  return parts.from.resumed ? resume_parts(parts) : make_parts(parts);
}

void fill_ledger(const parameter_server_parts& parts,
                 const cores::data_ledger& ledger, proto::DataLedger& out) {
  out.set_epochs_completed(ledger.epochs_completed());
  if (ledger.has_parts()) {
    out.set_sharding(sharding_of(parts.settings.data));
    out.set_shared_samples(parts.data.samples);
    return fill_parts(ledger.snapshot_of_parts(), out);
  }
  auto state = ledger.snapshot();
  out.set_samples(ledger.samples());
  out.set_epochs_opened(state.next_epoch);
  fill_epochs(state, *out.mutable_open_epochs());
}

std::map<worker_id, owned_data> data_of_ranks(const proto::DataLedger& from) {
  std::map<worker_id, owned_data> result;
  for (const auto& one : from.parts())
    result[worker_id{one.part()}] = {one.samples(), one.digest()};
  return result;
}

} // namespace troupe
