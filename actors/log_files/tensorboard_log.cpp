#include "actors/log_files/tensorboard_log.hpp"

#include "actors/log_files/appending.hpp"
#include "actors/log_files/crc32c.hpp"
#include "config/text/failure.hpp"
#include "messages/proto/tensorboard.pb.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace troupe::recording {

namespace {

namespace fs = std::filesystem;
using proto::tensorboard::Event;
using proto::tensorboard::SessionLog;

/// Readers take the files of a folder in the order of their names and only
/// look at names with `tfevents`.
std::string file_name(double start, unsigned number) {
  char text[64];
  std::snprintf(text, sizeof text, "events.out.tfevents.%010lld.%04u.troupe",
                static_cast<long long>(start), number);
  return text;
}

template <class T>
void put_raw(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>((value >> (8 * i)) & 0xff);
}

uint32_t masked(std::string_view text) {
  return mask_crc(crc32c(std::as_bytes(std::span{text.data(), text.size()})));
}

/// A TFRecord: length, checksum of the length, data, checksum of the data.
std::string framed(const std::string& data) {
  std::string result;
  put_raw(result, static_cast<uint64_t>(data.size()));
  put_raw(result, masked(result));
  result += data;
  put_raw(result, masked(data));
  return result;
}

/// Numbers that are not finite are left out.
void put(Event& event, std::string tag, std::optional<double> value) {
  if (!value || !std::isfinite(*value))
    return;
  auto* entry = event.mutable_summary()->add_value();
  entry->set_tag(std::move(tag));
  entry->set_simple_value(static_cast<float>(*value));
}

} // namespace

tensorboard_log::tensorboard_log(const fs::path& folder, double start,
                                 std::optional<uint64_t> resume_step,
                                 size_t gathers)
  : start_(start), gathers_(gathers) {
  for (unsigned number = 0; !file_; ++number) {
    path_ = folder / file_name(start, number);
    file_ = config::descriptor{
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
    if (!file_ && errno != EEXIST)
      fail("create", path_);
  }
  Event version;
  version.set_wall_time(start);
  version.set_file_version("brain.Event:2");
  append(version);
  if (!resume_step)
    return;
  Event session;
  session.set_wall_time(start);
  session.set_step(static_cast<int64_t>(*resume_step));
  session.mutable_session_log()->set_status(SessionLog::START);
  append(session);
}

tensorboard_log::~tensorboard_log() {
  try {
    flush();
  } catch (const std::exception&) {
    // Callers that need to know of errors have flushed before.
  }
}

void tensorboard_log::update(uint64_t step, double time,
                             const update_scalars& scalars) {
  auto event = event_at(step, time);
  put(event, "train/loss", scalars.loss);
  put(event, "train/samples_per_second", scalars.samples_per_second);
  put(event, "train/staleness_mean", scalars.staleness_mean);
  put(event, "train/lr", scalars.lr);
  for (const auto& one : scalars.metrics)
    put(event, "train/" + one.name, one.value);
  append_scalars(event);
}

void tensorboard_log::evaluation(uint64_t step, double time,
                                 const config::metrics& found) {
  auto event = event_at(step, time);
  for (const auto& one : found)
    put(event, "eval/" + one.name, one.value);
  append_scalars(event);
}

Event tensorboard_log::event_at(uint64_t step, double time) const {
  Event event;
  event.set_wall_time(start_ + time);
  event.set_step(static_cast<int64_t>(step));
  return event;
}

void tensorboard_log::append_scalars(const Event& event) {
  if (event.has_summary())
    append(event);
}

void tensorboard_log::append(const Event& event) {
  gathered_ += framed(event.SerializeAsString());
  if (gathered_.size() >= gathers_)
    flush();
}

void tensorboard_log::flush() {
  auto records = std::exchange(gathered_, {});
  for (std::string_view rest{records}; !rest.empty();) {
    auto n = ::write(file_.get(), rest.data(), rest.size());
    if (n < 0 && errno != EINTR)
      fail("write", path_);
    if (n > 0)
      rest.remove_prefix(static_cast<size_t>(n));
  }
}

} // namespace troupe::recording
