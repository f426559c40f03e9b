#include "actors/log_files/event_log_file.hpp"

#include "actors/log_files/appending.hpp"
#include "actors/log_files/crc32c.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace troupe::recording {

namespace {

namespace fs = std::filesystem;
using google::protobuf::io::CodedOutputStream;

/// Field 16 (`crc32c`), fixed32: its two bytes of tag and four of value.
constexpr unsigned char seal_tag[] = {0x85, 0x01};
constexpr size_t seal_size = sizeof seal_tag + sizeof(uint32_t);

/// No event is larger: a cluster of 100,000 that is released at once takes 3
/// MB.
constexpr uint64_t largest_event = 64u << 20;
constexpr size_t longest_varint = 10;

/// Where an event lies in an event log.
struct frame {
  size_t begin; ///< Of the message, after its length.
  size_t size;  ///< Of the message, with its checksum.
};

/// The frame that begins at `at`; nothing when it is not complete.
std::optional<frame> frame_at(std::span<const std::byte> all, size_t at) {
  uint64_t size = 0;
  for (size_t i = 0; i < longest_varint && at + i < all.size(); ++i) {
    auto next = static_cast<uint64_t>(all[at + i]);
    size |= (next & 0x7f) << (7 * i);
    if ((next & 0x80) != 0)
      continue;
    auto begin = at + i + 1;
    if (size < seal_size || size > largest_event || size > all.size() - begin)
      return std::nullopt;
    return frame{begin, size};
  }
  return std::nullopt;
}

bool is_sealed(std::span<const std::byte> message) {
  auto body = message.first(message.size() - seal_size);
  auto seal = message.last(seal_size);
  uint32_t sum = 0;
  std::memcpy(&sum, seal.data() + sizeof seal_tag, sizeof sum);
  return std::memcmp(seal.data(), seal_tag, sizeof seal_tag) == 0 &&
         sum == crc32c(body);
}

/// Whether a complete event begins anywhere after `at`.
bool goes_on_after(std::span<const std::byte> all, size_t at) {
  while (++at < all.size())
    if (auto next = frame_at(all, at);
        next && is_sealed(all.subspan(next->begin, next->size)))
      return true;
  return false;
}

} // namespace

std::string event_log_name(uint32_t life) {
  return "tape-" + std::to_string(life) + ".pb";
}

fs::path set_event_log_aside(const fs::path& event_log) {
  std::error_code err;
  if (!fs::exists(event_log, err))
    return {};
  auto name = event_log.filename().string();
  auto target = event_log.parent_path() / ("abandoned-" + name);
  for (int k = 2; fs::exists(target, err); ++k)
    target =
      event_log.parent_path() / ("abandoned-" + std::to_string(k) + "-" + name);
  fs::rename(event_log, target, err);
  if (err)
    throw run_error("cannot rename " + event_log.string() + ": " +
                    err.message());
  return target;
}

// -- writing ------------------------------------------------------------------

event_log_file::event_log_file(fs::path path) : path_(std::move(path)) {
  file_ = config::descriptor{::open(
    path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644)};
  if (!file_)
    fail("make", path_);
}

void event_log_file::write(proto::LogEvent& event) {
  event.set_number(events_ + 1);
  event.clear_crc32c();
  auto body = event.ByteSizeLong();
  auto prefix =
    CodedOutputStream::VarintSize64(static_cast<uint64_t>(body + seal_size));
  buffer_.resize(prefix + body + seal_size);
  auto* bytes = reinterpret_cast<unsigned char*>(buffer_.data());
  CodedOutputStream::WriteVarint64ToArray(body + seal_size, bytes);
  event.SerializeWithCachedSizesToArray(bytes + prefix);
  auto* seal = bytes + prefix + body;
  auto sum = crc32c(std::as_bytes(std::span{bytes + prefix, body}));
  std::memcpy(seal, seal_tag, sizeof seal_tag);
  std::memcpy(seal + sizeof seal_tag, &sum, sizeof sum);
  append_whole(file_.get(), buffer_, size_, path_);
  size_ += buffer_.size();
  ++events_;
}

// -- reading ------------------------------------------------------------------

event_log_reader::event_log_reader(fs::path path)
  : path_(std::move(path)), bytes_(models::read_file(path_)) {
  proto::LogEvent first;
  if (bytes_.size() == 0)
    throw run_error(path_.string() + ": is empty: the run was ended before it "
                                     "began");
  if (!read(first) || !first.has_begin())
    throw run_error(path_.string() +
                    ": is no event log (tape-<life>.pb of a run directory)");
  begin_ = std::move(*first.mutable_begin());
  if (begin_.format_version() != event_log_format)
    throw run_error(
      path_.string() + ": an event log of format " +
      std::to_string(begin_.format_version()) + ", made by trainer_node " +
      config::shown(begin_.troupe_version()) + "; this one reads format " +
      std::to_string(event_log_format));
}

bool event_log_reader::next(proto::LogEvent& out) {
  return read(out);
}

bool event_log_reader::read(proto::LogEvent& out) {
  auto all = bytes_.span();
  if (at_ == all.size())
    return false;
  auto found = frame_at(all, at_);
  if (!found && events_ == 0)
    return false;
  if (!found && goes_on_after(all, at_))
    refuse("its length is wrong");
  if (!found) {
    cut_ = all.size() - at_;
    at_ = all.size();
    return false;
  }
  auto message = all.subspan(found->begin, found->size);
  if (events_ == 0 && !is_sealed(message) && message[0] != std::byte{0x08})
    return false; // Another kind of file.
  if (!is_sealed(message))
    refuse("its checksum does not match");
  if (!out.ParseFromArray(message.data(), static_cast<int>(message.size())))
    refuse("it is no event");
  if (out.number() != events_ + 1)
    refuse("it is numbered " + std::to_string(out.number()));
  at_ = found->begin + found->size;
  ++events_;
  return true;
}

void event_log_reader::refuse(const std::string& why) const {
  throw run_error(path_.string() + ": event " + std::to_string(events_ + 1) +
                  ", at byte " + std::to_string(at_) + ", is damaged: " + why);
}

} // namespace troupe::recording
