#include "apps/launch/ssh/frames.hpp"

#include "config/text/failure.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace troupe::app {

namespace {

using nlohmann::json;

constexpr size_t length_bytes = 4;

[[noreturn]] void refuse_bytes() {
  throw run_error("what has come is no frame of trainer_node launch");
}

/// Fills a frame with what is read, so that nothing of another form takes
/// memory or time: a map of numbers and texts, one list of texts, one map of
/// texts.
class frame_builder : public nlohmann::json_sax<json> {
public:
  frame out{};

  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool binary(binary_t&) override { return false; }

  bool number_integer(number_integer_t value) override {
    if (where_ != place::fields || key_ != "number")
      return false;
    out.number = value;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (where_ != place::fields)
      return false;
    if (key_ == "kind" && value <= UINT8_MAX)
      out.kind = static_cast<frame_kind>(value);
    else if (key_ == "process")
      out.process = value;
    else if (key_ == "number" && value <= INT64_MAX)
      out.number = static_cast<int64_t>(value);
    else
      return false;
    return true;
  }

  bool string(string_t& value) override {
    if (where_ == place::words)
      out.words.push_back(std::move(value));
    else if (where_ == place::table)
      out.table[key_] = std::move(value);
    else if (where_ == place::fields && key_ == "text")
      out.text = std::move(value);
    else
      return false;
    return true;
  }

  bool start_object(size_t) override {
    auto is_table = where_ == place::fields && key_ == "table";
    if (where_ != place::outside && !is_table)
      return false;
    where_ = is_table ? place::table : place::fields;
    return true;
  }

  bool end_object() override {
    where_ = where_ == place::table ? place::fields : place::outside;
    return true;
  }

  bool start_array(size_t) override {
    if (where_ != place::fields || key_ != "words")
      return false;
    where_ = place::words;
    return true;
  }

  bool end_array() override {
    where_ = place::fields;
    return true;
  }

  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }

  bool parse_error(size_t, const std::string&,
                   const json::exception&) override {
    return false;
  }

private:
  enum class place : uint8_t { outside, fields, words, table };

  place where_ = place::outside;
  std::string key_;
};

json to_map(const frame& value) {
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
  json::to_cbor(to_map(value), out);
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
    refuse_bytes();
  if (bytes.size() < length_bytes + length)
    return std::nullopt;
  auto content = bytes.substr(length_bytes, length);
  frame_builder read;
  if (!json::sax_parse(content.begin(), content.end(), &read,
                       json::input_format_t::cbor) ||
      read.out.kind == frame_kind{})
    refuse_bytes();
  bytes.remove_prefix(length_bytes + length);
  return std::move(read.out);
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
