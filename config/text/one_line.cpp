#include "config/text/one_line.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <new>

namespace troupe {

namespace {

/// Marks the place of an error in a script's source.
constexpr std::string_view error_place = "<--- HERE";

/// Takes the first line off the text.
std::string_view take_line(std::string_view& text) {
  auto end = std::min(text.find('\n'), text.size());
  auto out = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return out;
}

/// "RuntimeError: what is wrong", "builtins.ValueError: ...": no line of source
/// begins so.
bool names_an_error(std::string_view line) {
  auto end = line.find(':');
  return end != line.npos && end > 0 &&
         std::ranges::all_of(line.substr(0, end), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '_' || c == '.';
         });
}

/// The line after the source that the interpreter shows; empty if there is
/// none.
std::string_view cause_in_script(std::string_view text) {
  constexpr std::string_view built_in = "builtins.";
  for (auto rest = text.substr(text.rfind(error_place)); !rest.empty();)
    if (auto line = take_line(rest); names_an_error(line)) {
      if (line.starts_with(built_in))
        line.remove_prefix(built_in.size());
      return config::trim(line);
    }
  return {};
}

} // namespace

bool is_of_script(std::string_view text) {
  return text.find("in the TorchScript interpreter") != text.npos &&
         text.find(error_place) != text.npos;
}

std::string cause_in(std::string_view text) {
  if (is_of_script(text))
    if (auto cause = cause_in_script(text); !cause.empty())
      return std::string{cause};
  while (!text.empty())
    if (auto line = config::trim(take_line(text)); !line.empty())
      return std::string{line};
  return "an error without a text";
}

std::string one_line(const std::exception& err) {
  if (dynamic_cast<const std::bad_alloc*>(&err) != nullptr)
    return "this process gets no more memory; give it more (ulimit -v)";
  if (dynamic_cast<const failure*>(&err) != nullptr)
    return err.what();
  return cause_in(err.what());
}

std::string one_line(const std::exception_ptr& err) {
  try {
    std::rethrow_exception(err);
  } catch (const std::exception& known) {
    return one_line(known);
  } catch (...) {
    return "an exception of an unknown kind";
  }
}

} // namespace troupe
