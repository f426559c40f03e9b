#pragma once
// Private to config/: builds the table of keys.hpp. An entry is made from a
// member of the settings, which gives type and default, and from its help text.
// Called once, when the table is first used.

#include "config/schema/keys.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::config {

std::vector<key> make_table();

/// Adds those of [cluster].
void add_cluster(std::vector<key>& table);

/// Words as the placeholder of a value that is one of them.
inline std::string words_of_choice(std::span<const std::string> words) {
  return join(words, "|");
}

template <class T>
struct plain {
  using type = T;
};

template <class T>
struct plain<std::optional<T>> {
  using type = T;
};

/// The type of a setting's value, without `optional`.
template <class T>
using plain_t = typename plain<T>::type;

template <class T>
std::string text_of(const T& slot) {
  return print(slot);
}

template <class T>
std::string text_of(const std::optional<T>& slot) {
  return slot ? print(*slot) : "";
}

/// Adds the keys of one section to a table.
template <class Part>
class section_of {
public:
  section_of(std::vector<key>& table, std::string name, Part settings::*part)
    : table_(table), name_(std::move(name)), part_(part) {
    // nop
  }

  /// Adds a key for `field`. `value` is the placeholder in the help, replaced
  /// by the words if the type is an enum. `rule` returns what is wrong with a
  /// value, or corrects it.
  template <class T>
  key& add(std::string name, T Part::*field, scope where, std::string value,
           std::string help,
           std::function<std::string(plain_t<T>&)> rule = {}) {
    using value_type = plain_t<T>;
    auto& entry = table_.emplace_back();
    entry.section = name_;
    entry.name = entry.flag = std::move(name);
    entry.value = std::move(value);
    entry.help = std::move(help);
    entry.where = where;
    if constexpr (std::is_enum_v<value_type>)
      entry.value = alternatives<value_type>();
    if constexpr (std::is_same_v<value_type, bool>)
      entry.alone = "true";
    entry.get = [part = part_, field](const settings& all) {
      return text_of(all.*part.*field);
    };
    entry.set = [part = part_, field, rule](settings& all,
                                            std::string_view text) {
      const T unset = settings{}.*part.*field;
      if (text.empty()) {
        if (!text_of(unset).empty())
          throw bad_value("needs a value");
        all.*part.*field = unset;
        return;
      }
      auto read = parse<value_type>(text);
      if (auto why = rule ? rule(read) : ""; !why.empty())
        throw bad_value(why);
      all.*part.*field = std::move(read);
    };
    return entry;
  }

private:
  std::vector<key>& table_;
  std::string name_;
  Part settings::*part_;
};

} // namespace troupe::config
