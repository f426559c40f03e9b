#include "messages/run_record.hpp"

#include "config/runs/earlier_run.hpp"

namespace troupe {

namespace {

void fill(const std::optional<config::data_part>& from,
          proto::DataPartDescription* (proto::DataDescription::*add)(),
          proto::DataDescription& to) {
  if (!from)
    return;
  auto* part = (to.*add)();
  part->set_samples(from->samples);
  part->set_labels(from->labels);
  part->set_content(from->content);
}

void fill(const config::data_description& from, proto::DataDescription& to) {
  to.set_name(from.name);
  to.set_classes(from.classes);
  for (auto size : from.shape)
    to.add_shape(size);
  fill(from.train, &proto::DataDescription::mutable_train, to);
  fill(from.test, &proto::DataDescription::mutable_test, to);
}

config::data_part part_of(const proto::DataPartDescription& from) {
  return {from.samples(), from.labels(), from.content()};
}

config::data_description data_of(const proto::DataDescription& from) {
  config::data_description out;
  out.name = from.name();
  out.classes = from.classes();
  auto known =
    std::min<size_t>(out.shape.size(), static_cast<size_t>(from.shape_size()));
  for (size_t i = 0; i < known; ++i)
    out.shape[i] = from.shape(static_cast<int>(i));
  if (from.has_train())
    out.train = part_of(from.train());
  if (from.has_test())
    out.test = part_of(from.test());
  return out;
}

/// The description of a run from a file of release 0.1.0, which has none: made
/// from the configuration in the file.
template <class Record>
config::run_description described_by_config(const Record& from,
                                            uint64_t samples, uint32_t life) {
  config::run_description out;
  out.run_id = from.run_id();
  out.life = life;
  out.settings =
    config::shared_settings_of({"config.ini", from.config_ini(), true});
  out.data.name = from.dataset();
  out.data.classes = from.classes();
  if (samples > 0)
    out.data.train = config::data_part{samples, 0, 0};
  return out;
}

} // namespace

void put(const config::run_description& from, proto::RunDescription& to) {
  to.set_run_id(from.run_id);
  to.set_life(from.life);
  for (const auto& [key, value] : from.settings) {
    auto* one = to.add_settings();
    one->set_key(key);
    one->set_value(value);
  }
  fill(from.data, *to.mutable_data());
  to.set_network_sha256(from.network_sha256);
  if (!from.init.file.empty()) {
    to.mutable_init()->set_file(from.init.file);
    to.mutable_init()->set_sha256(from.init.sha256);
    to.mutable_init()->set_skip(from.init.skip);
  }
  for (const auto& what : from.changes) {
    auto* one = to.add_changes();
    one->set_step(what.step);
    one->set_life(what.life);
    one->set_key(what.key);
    one->set_before(what.before);
    one->set_after(what.after);
    one->set_live(what.live);
  }
}

config::run_description description_of(const proto::RunDescription& from) {
  config::run_description out;
  out.run_id = from.run_id();
  out.life = from.life();
  for (const auto& one : from.settings())
    out.settings.emplace_back(one.key(), one.value());
  out.data = data_of(from.data());
  out.network_sha256 = from.network_sha256();
  out.init = {from.init().file(), from.init().sha256(), from.init().skip()};
  for (const auto& one : from.changes())
    out.changes.push_back({one.step(), one.life(), one.key(), one.before(),
                           one.after(), one.live()});
  return out;
}

config::run_description description_of(const proto::Manifest& from) {
  if (from.has_description())
    return description_of(from.description());
  const auto& ledger = from.ledger();
  auto samples =
    ledger.samples() > 0 ? ledger.samples() : ledger.shared_samples();
  return described_by_config(from, samples, from.ps_incarnation());
}

config::run_description description_of(const proto::LogBegin& from) {
  if (from.has_description())
    return description_of(from.description());
  return described_by_config(from, from.samples(), from.life());
}

} // namespace troupe
