#include "apps/launch/hosts/frames.hpp"

#include "config/text/failure.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace troupe::app {

namespace {

using nlohmann::json;

constexpr size_t length_bytes = 4;

[[noreturn]] void refuse() {
  throw run_error("what has come is no frame of trainer_node launch");
}

/// Fields that are not there keep their values.
template <class T>
void read_field(const json& from, const char* name, T& out) {
  if (auto at = from.find(name); at != from.end())
    out = at->get<T>();
}

frame to_frame(const json& from) {
  frame out;
  out.kind = static_cast<frame_kind>(from.at("kind").get<uint8_t>());
  read_field(from, "process", out.process);
  read_field(from, "number", out.number);
  read_field(from, "text", out.text);
  read_field(from, "words", out.words);
  read_field(from, "table", out.table);
  return out;
}

json to_json(const frame& value) {
  json out{{"kind", static_cast<uint8_t>(value.kind)}};
  if (value.process != 0)
    out["process"] = value.process;
  if (value.number != 0)
    out["number"] = value.number;
  if (!value.text.empty())
    out["text"] = value.text;
  if (!value.words.empty())
    out["words"] = value.words;
  if (!value.table.empty())
    out["table"] = value.table;
  return out;
}

} // namespace

std::string to_bytes(const frame& value) {
  std::string out(length_bytes, '\0');
  json::to_cbor(to_json(value), out);
  auto length = out.size() - length_bytes;
  for (auto i = length_bytes; i-- > 0; length >>= 8)
    out[i] = static_cast<char>(length & 0xff);
  return out;
}

std::optional<frame> take_frame(std::string_view& bytes) {
  if (bytes.size() < length_bytes)
    return std::nullopt;
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length = length << 8 | static_cast<uint8_t>(bytes[i]);
  if (length == 0 || length > longest_frame)
    refuse();
  if (bytes.size() < length_bytes + length)
    return std::nullopt;
  try {
    auto content = bytes.substr(length_bytes, length);
    auto out = to_frame(json::from_cbor(content.begin(), content.end()));
    bytes.remove_prefix(length_bytes + length);
    return out;
  } catch (const json::exception&) {
    refuse();
  }
}

frame_stream::frame_stream(int input, int output)
  : input_(input), output_(output) {
  for (auto file : {input, output})
    fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
}

void frame_stream::put(const frame& value) {
  if (output_ < 0)
    return;
  unsent_ += to_bytes(value);
  flush();
}

void frame_stream::stop_sending() {
  unsent_.clear();
  output_ = -1;
}

void frame_stream::flush() {
  size_t sent = 0;
  while (!cut_ && sent < unsent_.size()) {
    auto some = write(output_, unsent_.data() + sent, unsent_.size() - sent);
    if (some < 0 && errno == EINTR)
      continue;
    if (some < 0 && errno == EAGAIN)
      break;
    cut_ = some < 0;
    sent += cut_ ? 0 : static_cast<size_t>(some);
  }
  unsent_.erase(0, sent);
}

void frame_stream::read() {
  constexpr size_t most_at_once = size_t{1} << 20;
  std::array<char, 65536> some{};
  for (size_t all = 0; !cut_ && all < most_at_once;) {
    auto got = ::read(input_, some.data(), some.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      return;
    cut_ = got <= 0;
    all += cut_ ? 0 : static_cast<size_t>(got);
    received_.append(some.data(), cut_ ? 0 : static_cast<size_t>(got));
  }
}

std::optional<frame> frame_stream::take() {
  auto rest = std::string_view{received_}.substr(taken_);
  auto out = take_frame(rest);
  taken_ = received_.size() - rest.size();
  if (!out) {
    received_.erase(0, taken_);
    taken_ = 0;
  }
  return out;
}

std::optional<std::string> frame_stream::take_line() {
  auto end = received_.find('\n', taken_);
  if (end == std::string::npos)
    return std::nullopt;
  auto out = received_.substr(taken_, end - taken_);
  taken_ = end + 1;
  return out;
}

} // namespace troupe::app
