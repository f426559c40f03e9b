#include "apps/startup/event_log.hpp"

#include "actors/log_files/event_log_file.hpp"
#include "config/report/report.hpp"
#include "config/text/version.hpp"
#include "messages/run_record.hpp"
#include "models/storage/checkpoint.hpp"

#include <ATen/Version.h>

#include <memory>

namespace troupe::app {

namespace {

void put_checkpoint(const models::loaded_checkpoint& from,
                    proto::LogBegin& out) {
  out.set_checkpoint(models::checkpoint_name(from.manifest.step()));
  for (const auto& file : from.manifest.files()) {
    if (file.name() == "model.safetensors")
      out.set_model_sha256(file.sha256());
    else if (file.name() == "optimizer.safetensors")
      out.set_optimizer_sha256(file.sha256());
  }
}

} // namespace

std::string cpu_capability() {
  return at::get_cpu_capability();
}

proto::LogBegin make_log_begin(const parameter_server_parts& parts,
                               int threads) {
  proto::LogBegin out;
  out.set_format_version(recording::event_log_format);
  out.set_troupe_version(std::string{config::version()});
  out.set_config_ini(config::to_ini(parts.settings));
  out.set_config_digest(config::digest(parts.settings));
  out.set_run_id(parts.description.run_id);
  out.set_life(parts.life().value);
  if (parts.from.resumed) {
    out.set_start_version(parts.from.resumed->manifest.step());
    put_checkpoint(*parts.from.resumed, out);
  }
  out.set_dataset(parts.data.name);
  out.set_samples(parts.data.samples);
  out.set_classes(static_cast<uint32_t>(parts.data.classes));
  out.set_rules(parts.rules);
  out.set_threads(static_cast<uint32_t>(threads));
  out.set_cpu(cpu_capability());
  if (const auto& device = parts.settings.training.device; device != "cpu")
    out.set_device(device);
  if (parts.from.best)
    out.set_best_step(parts.from.best->step);
  put(parts.description, *out.mutable_description());
  out.set_alone(parts.settings.what == config::role::simulate);
  return out;
}

event_sink open_event_log(const std::filesystem::path& folder,
                          const parameter_server_parts& parts, int threads,
                          const std::function<void(const std::string&)>& say) {
  auto path = folder / recording::event_log_name(parts.life().value);
  if (auto aside = recording::set_event_log_aside(path); !aside.empty())
    say("event log    " + path.string() + " of an earlier start is now " +
        aside.filename().string());
  auto writer = std::make_shared<recording::event_log_file>(path);
  proto::LogEvent first;
  *first.mutable_begin() = make_log_begin(parts, threads);
  writer->write(first);
  return [writer](proto::LogEvent& event) {
    writer->write(event);
  };
}

} // namespace troupe::app
