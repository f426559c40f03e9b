#include "config/text/value.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace troupe::config {

namespace {

template <class Enum>
using choice = std::pair<Enum, std::string_view>;

constexpr std::array clock_words{
  choice<clock_kind>{clock_kind::real, "real"},
  choice<clock_kind>{clock_kind::virtual_time, "virtual"},
};

constexpr std::array scalar_words{
  choice<scalar_type>{scalar_type::float32, "float32"},
  choice<scalar_type>{scalar_type::float64, "float64"},
};

constexpr std::array buffers_words{
  choice<buffers_rule>{buffers_rule::average, "average"},
  choice<buffers_rule>{buffers_rule::first, "first"},
  choice<buffers_rule>{buffers_rule::local, "local"},
};

constexpr std::array overlap_words{
  choice<overlap_rule>{overlap_rule::automatic, "auto"},
  choice<overlap_rule>{overlap_rule::on, "on"},
  choice<overlap_rule>{overlap_rule::off, "off"},
};

constexpr std::array topology_words{
  choice<topology_kind>{topology_kind::star, "star"},
  choice<topology_kind>{topology_kind::peers, "peers"},
};

constexpr std::array log_form_words{
  choice<log_form>{log_form::plain, "plain"},
  choice<log_form>{log_form::json, "json"},
};

constexpr std::array bad_sample_words{
  choice<bad_sample_rule>{bad_sample_rule::fail, "fail"},
  choice<bad_sample_rule>{bad_sample_rule::skip, "skip"},
};

constexpr std::array sharding_words{
  choice<sharding_kind>{sharding_kind::leased, "leased"},
  choice<sharding_kind>{sharding_kind::fixed, "static"},
  choice<sharding_kind>{sharding_kind::local, "local"},
};

constexpr std::array exclusion_words{
  choice<decay_exclusion>{decay_exclusion::none, "none"},
  choice<decay_exclusion>{decay_exclusion::bias, "bias"},
  choice<decay_exclusion>{decay_exclusion::norm, "norm"},
  choice<decay_exclusion>{decay_exclusion::bias_and_norm, "bias+norm"},
};

constexpr std::array best_words{
  choice<best_rule>{best_rule::nothing, "false"},
  choice<best_rule>{best_rule::weights, "true"},
  choice<best_rule>{best_rule::full, "full"},
};

constexpr std::array other_best_words{
  choice<best_rule>{best_rule::nothing, "no"},
  choice<best_rule>{best_rule::nothing, "off"},
  choice<best_rule>{best_rule::nothing, "0"},
  choice<best_rule>{best_rule::weights, "yes"},
  choice<best_rule>{best_rule::weights, "on"},
  choice<best_rule>{best_rule::weights, "1"},
};

constexpr std::array autocast_words{
  choice<autocast_kind>{autocast_kind::none, "none"},
  choice<autocast_kind>{autocast_kind::bf16, "bf16"},
  choice<autocast_kind>{autocast_kind::fp16, "fp16"},
  choice<autocast_kind>{autocast_kind::automatic, "auto"},
};

constexpr std::array mode_words{
  choice<parallel_mode>{parallel_mode::data_parallel, "data-parallel"},
  choice<parallel_mode>{parallel_mode::remote_forward, "remote-forward"},
  choice<parallel_mode>{parallel_mode::pipeline, "pipeline"},
};

constexpr std::array order_words{
  choice<pipeline_order>{pipeline_order::gpipe, "gpipe"},
  choice<pipeline_order>{pipeline_order::one_forward_one_backward, "1f1b"},
};

constexpr std::array compute_words{
  choice<compute_kind>{compute_kind::native, "native"},
  choice<compute_kind>{compute_kind::external, "external"},
};

constexpr std::array role_words{
  choice<role>{role::ps, "ps"},
  choice<role>{role::worker, "worker"},
  choice<role>{role::evaluator, "evaluator"},
  choice<role>{role::automatic, "auto"},
};

constexpr std::array other_scalar_words{
  choice<scalar_type>{scalar_type::float32, "fp32"},
  choice<scalar_type>{scalar_type::float64, "fp64"},
};

constexpr std::array other_autocast_words{
  choice<autocast_kind>{autocast_kind::bf16, "bfloat16"},
  choice<autocast_kind>{autocast_kind::fp16, "float16"},
};

bool all_digits(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

} // namespace

choices<clock_kind> words(clock_kind) {
  return clock_words;
}

choices<scalar_type> words(scalar_type) {
  return scalar_words;
}

choices<buffers_rule> words(buffers_rule) {
  return buffers_words;
}

choices<overlap_rule> words(overlap_rule) {
  return overlap_words;
}

choices<topology_kind> words(topology_kind) {
  return topology_words;
}

choices<log_form> words(log_form) {
  return log_form_words;
}

choices<bad_sample_rule> words(bad_sample_rule) {
  return bad_sample_words;
}

choices<sharding_kind> words(sharding_kind) {
  return sharding_words;
}

choices<decay_exclusion> words(decay_exclusion) {
  return exclusion_words;
}

choices<autocast_kind> words(autocast_kind) {
  return autocast_words;
}

choices<best_rule> words(best_rule) {
  return best_words;
}

choices<parallel_mode> words(parallel_mode) {
  return mode_words;
}

choices<pipeline_order> words(pipeline_order) {
  return order_words;
}

choices<compute_kind> words(compute_kind) {
  return compute_words;
}

choices<role> words(role) {
  return role_words;
}

choices<scalar_type> other_words(scalar_type) {
  return other_scalar_words;
}

choices<autocast_kind> other_words(autocast_kind) {
  return other_autocast_words;
}

choices<best_rule> other_words(best_rule) {
  return other_best_words;
}

uint64_t parse_unsigned(std::string_view text, uint64_t largest) {
  if (text.starts_with('-') && text.size() > 1 && all_digits(text.substr(1)))
    throw bad_value("must not be negative");
  if (text.empty() || !all_digits(text))
    throw bad_value("must be a whole number");
  uint64_t value = 0;
  auto [end, error] =
    std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value > largest)
    throw bad_value("must be at most " + std::to_string(largest));
  return value;
}

double parse_double(std::string_view text) {
  double value = 0;
  auto end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range)
    throw bad_value("is out of the range of a double");
  if (error != std::errc{} || stop != end)
    throw bad_value("must be a number");
  if (!std::isfinite(value))
    throw bad_value("must be finite");
  return value;
}

bool parse_bool(std::string_view text) {
  for (std::string_view yes : {"true", "yes", "on", "1"})
    if (text == yes)
      return true;
  for (std::string_view no : {"false", "no", "off", "0"})
    if (text == no)
      return false;
  throw bad_value("must be true or false");
}

evaluation_frequency parse_frequency(std::string_view text) {
  if (text == "epoch")
    return {0};
  if (!text.empty() && !all_digits(text))
    throw bad_value("must be a whole number or epoch");
  auto steps = parse_unsigned(text, 1'000'000'000'000'000);
  if (steps == 0)
    throw bad_value("must be at least 1, or epoch");
  return {steps};
}

std::string print(const evaluation_frequency& value) {
  return value.each_epoch() ? "epoch" : std::to_string(value.steps);
}

local_steps_rule parse_local_steps(std::string_view text) {
  if (all_digits(text)) {
    if (parse_unsigned(text, UINT64_MAX) > most_local_steps)
      throw bad_value("must be at most " + std::to_string(most_local_steps));
    return {parse<uint32_t>(text)};
  }
  if (name_of_call(text) != "auto")
    throw bad_value("must be a whole number or auto");
  const call_schema rule{"auto",
                         {{"max", "N", "steps of the quickest worker",
                           whole(1, most_local_steps), "32"}}};
  auto most = read_arguments(rule, text).whole("max");
  return {static_cast<uint32_t>(most), true};
}

std::string print(const local_steps_rule& value) {
  auto most = std::to_string(value.most);
  return value.by_rate ? "auto(max=" + most + ")" : most;
}

std::string print(double value) {
  std::array<char, 32> buffer;
  auto first = buffer.data(), last = first + buffer.size();
  auto size = std::abs(value);
  auto readable = size == 0 || (size >= 1e-6 && size < 1e15);
  auto [end, error] =
    readable ? std::to_chars(first, last, value, std::chars_format::fixed)
             : std::to_chars(first, last, value);
  return {first, end};
}

std::string print(bool value) {
  return value ? "true" : "false";
}

std::string not_among(std::string_view text,
                      std::span<const std::string> known) {
  if (known.size() == 1)
    return "must be " + known.front();
  return "must be one of " + join(known, ", ") + did_you_mean(text, known);
}

} // namespace troupe::config
