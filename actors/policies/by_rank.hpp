#pragma once
// A map whose keys are ranks, which are small numbers from 0 up. Each rank has
// its place in one vector: a look-up needs no search, and iteration is in the
// order of ranks. It has the part of std::map's interface that is used here.
//
// A value; insertion may move the elements. Not thread-safe; one owner.

#include "messages/ids.hpp"

#include <cstddef>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::policies {

/// The upper limit of ranks wherever they are given out or read. It bounds the
/// memory that a wrong rank can cost.
inline constexpr uint32_t most_ranks = 1u << 20;

template <class T>
class by_rank {
public:
  using value_type = std::pair<worker_id, T>;

private:
  using places = std::vector<std::optional<value_type>>;

  template <class Place>
  class basic_iterator {
  public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = by_rank::value_type;
    using difference_type = std::ptrdiff_t;
    using reference = std::conditional_t<std::is_const_v<Place>,
                                         const value_type&, value_type&>;
    using pointer = std::remove_reference_t<reference>*;

    basic_iterator() = default;

    basic_iterator(Place* at, Place* end) : at_(at), end_(end) { skip(); }

    reference operator*() const { return **at_; }

    pointer operator->() const { return &**at_; }

    basic_iterator& operator++() {
      ++at_;
      skip();
      return *this;
    }

    basic_iterator operator++(int) {
      auto before = *this;
      ++*this;
      return before;
    }

    bool operator==(const basic_iterator& other) const {
      return at_ == other.at_;
    }

  private:
    friend class by_rank;

    void skip() {
      while (at_ != end_ && !at_->has_value())
        ++at_;
    }

    Place* at_ = nullptr;
    Place* end_ = nullptr;
  };

public:
  using iterator = basic_iterator<std::optional<value_type>>;
  using const_iterator = basic_iterator<const std::optional<value_type>>;

  iterator begin() { return {first(), last()}; }
  iterator end() { return {last(), last()}; }
  const_iterator begin() const { return {first(), last()}; }
  const_iterator end() const { return {last(), last()}; }

  size_t size() const { return size_; }

  bool empty() const { return size_ == 0; }

  bool contains(worker_id who) const {
    return who.value < places_.size() && places_[who.value].has_value();
  }

  iterator find(worker_id who) {
    return contains(who) ? iterator{first() + who.value, last()} : end();
  }

  const_iterator find(worker_id who) const {
    return contains(who) ? const_iterator{first() + who.value, last()} : end();
  }

  /// Throws `std::out_of_range` when the rank is absent.
  T& at(worker_id who) {
    require(who);
    return places_[who.value]->second;
  }

  const T& at(worker_id who) const {
    require(who);
    return places_[who.value]->second;
  }

  /// Throws `std::length_error` for a rank that is not below `most_ranks`.
  std::pair<iterator, bool> try_emplace(worker_id who, T value = {}) {
    if (contains(who))
      return {find(who), false};
    if (who.value >= most_ranks)
      throw std::length_error("rank " + to_string(who) + " is too high");
    if (places_.size() <= who.value)
      places_.resize(size_t{who.value} + 1);
    places_[who.value].emplace(who, std::move(value));
    ++size_;
    return {find(who), true};
  }

  T& operator[](worker_id who) { return try_emplace(who).first->second; }

  void erase(iterator where) {
    where.at_->reset();
    --size_;
  }

  size_t erase(worker_id who) {
    if (!contains(who))
      return 0;
    erase(find(who));
    return 1;
  }

  void clear() {
    places_.clear();
    size_ = 0;
  }

private:
  std::optional<value_type>* first() { return places_.data(); }
  std::optional<value_type>* last() { return first() + places_.size(); }

  const std::optional<value_type>* first() const { return places_.data(); }
  const std::optional<value_type>* last() const {
    return first() + places_.size();
  }

  void require(worker_id who) const {
    if (!contains(who))
      throw std::out_of_range("no worker " + to_string(who));
  }

  places places_;
  size_t size_ = 0;
};

} // namespace troupe::policies
