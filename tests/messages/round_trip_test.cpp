// Every message through CAF's binary format and back. The structured bindings
// name every field: a field that is added makes this file fail to compile.

#include "messages/interfaces.hpp"
#include "tests/support/wire.hpp"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

using namespace troupe;
using namespace troupe::test;

namespace {

uint64_t bits(real x) {
  return std::bit_cast<uint64_t>(x.value);
}

auto fields(const config::metrics& all) {
  std::vector<std::pair<std::string, uint64_t>> out;
  for (const auto& one : all)
    out.emplace_back(one.name, bits(one.value));
  return out;
}

auto fields(const push_header& x) {
  const auto& [id, server, on, from, samples, loss, compute, wait, data, idle,
               request, skipped, also, metrics, inner_steps, early_steps] = x;
  return std::tuple{id,
                    server,
                    on,
                    from,
                    samples,
                    bits(loss),
                    bits(compute),
                    bits(wait),
                    bits(data),
                    bits(idle),
                    request,
                    skipped,
                    also,
                    fields(metrics),
                    inner_steps,
                    early_steps};
}

auto fields(const pull_header& x) {
  const auto& [worker, life, server, abandoned, request, also] = x;
  return std::tuple{worker, life, server, abandoned, request, also};
}

auto fields(const request_id& x) {
  const auto& [worker, life, number] = x;
  return std::tuple{worker, life, number};
}

auto fields(const part_report& x) {
  const auto& [shard, request, gradient, refused, squares] = x;
  return std::tuple{shard, request, gradient, refused, squares};
}

auto fields(const shard_step& x) {
  const auto& [makes, gradients, samples, lr, scale, factors, momentum, use] =
    x;
  return std::tuple{makes,       gradients, samples,        lr.value,
                    scale.value, factors,   momentum.value, use};
}

auto fields(const shard_squares& x) {
  const auto& [parts] = x;
  return std::tuple{parts};
}

auto fields(const shard_measures& x) {
  std::vector<uint32_t> parameters;
  std::vector<std::vector<real>> squares;
  for (const auto& [parameter, weights, step] : x.parameters) {
    parameters.push_back(parameter);
    squares.push_back(weights.parts);
    squares.push_back(step.parts);
  }
  return std::tuple{parameters, squares};
}

auto fields(const shard_state& x) {
  const auto& [weights, steps, with_slots, groups, parts, first, of_fragments] =
    x;
  std::vector<real> terms;
  for (const auto& [lr_factor, weight_decay, momentum] : groups)
    terms.insert(terms.end(), {lr_factor, weight_decay, momentum});
  std::vector<uint64_t> places;
  for (const auto& [end, parameter, group] : parts)
    places.insert(places.end(), {end, parameter, group});
  return std::tuple{weights, steps, with_slots,  terms,
                    places,  first, of_fragments};
}

auto fields(const state_request& x) {
  std::vector<std::string> files;
  std::vector<uint64_t> numbers;
  for (const auto* place : {&x.weights, &x.slots}) {
    files.push_back(place->file);
    for (const auto& [first, count, at] : place->parts)
      numbers.insert(numbers.end(), {first, count, at});
  }
  return std::tuple{files, numbers, x.average};
}

auto fields(const release_header& x) {
  const auto& [weights, server, leases, dropped, steps, fragment, goes_on] = x;
  return std::tuple{weights, server, leases, dropped, steps, fragment, goes_on};
}

auto fields(const watch_header& x) {
  const auto& [weights, last, averaged] = x;
  return std::tuple{weights, last, averaged};
}

auto fields(const watch_request& x) {
  const auto& [after, average] = x;
  return std::tuple{after, average};
}

auto fields(const score& x) {
  const auto& [weights, metrics, samples, seconds] = x;
  return std::tuple{weights, fields(metrics), samples, bits(seconds)};
}

auto fields(const registration_request& x) {
  const auto& [has_rank, rank, transport, data, awaits_score, leases,
               takes_last, device] = x;
  return std::tuple{has_rank,     rank,   transport,  data.samples, data.digest,
                    awaits_score, leases, takes_last, device};
}

auto fields(const registration& x) {
  const auto& [worker, life, server] = x;
  return std::tuple{worker, life, server};
}

auto fields(const run_end& x) {
  const auto& [status, line, accuracy, next, without_nccl] = x;
  return std::tuple{status, line, bits(accuracy), next, without_nccl};
}

template <class T>
void check_fields(const T& x) {
  CHECK(fields(round_trip(x)) == fields(x));
  CHECK(fields(x) != fields(T{}));
}

const lease first_lease{lease_id{0x1122334455667788}, 2, 3, 4, 5};
const lease second_lease{lease_id{6}, 7, 8, UINT64_MAX};

} // namespace

TEST_CASE("ids come through the wire") {
  CHECK(round_trip(worker_id{0xfffffffe}) == worker_id{0xfffffffe});
  CHECK(round_trip(shard_id{7}) == shard_id{7});
  CHECK(round_trip(version{UINT64_MAX}) == version{UINT64_MAX});
  CHECK(round_trip(life_number{0x01020304}) == life_number{0x01020304});
  CHECK(round_trip(sequence{1ull << 40}) == sequence{1ull << 40});
  CHECK(round_trip(lease_id{9}) == lease_id{9});
  CHECK(round_trip(transfer_id{10}) == transfer_id{10});
  push_id push{worker_id{1}, life_number{2}, sequence{3}};
  CHECK(round_trip(push) == push);
  std::vector<worker_id> workers{worker_id{3}, worker_id{1}};
  CHECK(round_trip(workers) == workers);
}

TEST_CASE("leases come through the wire") {
  CHECK(round_trip(first_lease) == first_lease);
  std::vector<lease> leases{first_lease, second_lease};
  CHECK(round_trip(leases) == leases);
}

TEST_CASE("messages between worker and server come through the wire") {
  check_fields(push_header{{worker_id{1}, life_number{2}, sequence{3}},
                           life_number{4},
                           version{5},
                           lease_id{6},
                           7,
                           0.125,
                           9.5,
                           10.25,
                           11.75,
                           12.5,
                           sequence{8},
                           9,
                           {lease_id{10}, lease_id{11}},
                           {{"f1", 0.5}},
                           12});
  check_fields(pull_header{worker_id{1},
                           life_number{2},
                           life_number{3},
                           lease_id{4},
                           sequence{5},
                           {lease_id{6}}});
  request_id asked{worker_id{1}, life_number{2}, sequence{3}};
  push_id gradient{worker_id{1}, life_number{2}, sequence{4}};
  check_fields(asked);
  check_fields(part_report{
    shard_id{5}, asked, gradient, errc::not_finite, {0x1p-80, 3.5}});
  check_fields(shard_step{version{6},
                          {gradient, gradient},
                          {7, 8},
                          0.1,
                          0.2,
                          {0.3, 2},
                          0.9,
                          {false, true}});
  check_fields(shard_squares{{0x1p-80, 3.5}});
  check_fields(shard_measures{{{3, {{0x1p-80, 3.5}}, {{4}}}, {4, {}, {}}}});
  check_fields(shard_state{version{9},
                           10,
                           true,
                           {{1, 0.1, 0.9}, {0.5, 0, 0}},
                           {{11, 0, 0}, {12, 1, 1}},
                           21,
                           {4, 5}});
  check_fields(state_request{{"/runs/.tmp-draft-1-2", {{3, 4, 5}, {6, 7, 8}}},
                             {"/runs/.tmp-draft-9-10", {{11, 12, 13}}},
                             true});
  check_fields(release_header{
    version{1}, life_number{2}, {first_lease, second_lease}, true, 3, 4, true});
  check_fields(release_header{version{1}, life_number{2}, {}});
  check_fields(watch_header{version{1}, true, true});
  check_fields(watch_request{version{2}, true});
  check_fields(
    score{version{1}, {{"f1/all", 0.75}, {"loss", std::nan("")}}, 360, 1e-3});
}

TEST_CASE("messages of membership come through the wire") {
  check_fields(registration_request{
    true, worker_id{2}, "tcp", {3, 4}, true, 5, true, "cuda:1"});
  check_fields(registration{worker_id{1}, life_number{2}, life_number{3}});
  check_fields(run_end{3, "no space left on device", 0.75});
}

TEST_CASE("shapes come through the wire") {
  for (auto type : {element_type::float32, element_type::float64}) {
    CHECK(round_trip(type) == type);
    payload_shape shape{type, 431'080};
    CHECK(round_trip(shape) == shape);
  }
}

TEST_CASE("an element type that does not exist is refused") {
  for (int number = 0; number < 256; ++number) {
    caf::byte_buffer bytes{static_cast<caf::byte>(number)};
    CHECK(from_wire<element_type>(bytes).has_value() ==
          (number >= 1 && number <= 3));
  }
}

TEST_CASE("numbers keep every bit") {
  for (double x :
       {0.0, -0.0, 1.0, 1e-40, 1e-310, 5e-324, -5e-324, 1e308,
        std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN(), -std::nan("17"),
        static_cast<double>(std::numeric_limits<float>::denorm_min())})
    CHECK(same_bits(round_trip(real{x}), real{x}));
}

TEST_CASE("any bit pattern of a number comes through the wire") {
  std::mt19937_64 random{11};
  for (int i = 0; i < 10'000; ++i) {
    auto pattern = random();
    real x{
      std::bit_cast<double>(i % 2 ? pattern : pattern & ~(0x7ffull << 52))};
    REQUIRE(same_bits(round_trip(x), x));
  }
}

TEST_CASE("a message that is cut short is refused") {
  push_header header;
  header.samples = 12;
  auto bytes = to_wire(header);
  while (!bytes.empty()) {
    bytes.pop_back();
    REQUIRE_FALSE(from_wire<push_header>(bytes).has_value());
  }
}

TEST_CASE("numbers are shown as numbers to people") {
  CHECK(caf::deep_to_string(real{0.5}).find("0.5") != std::string::npos);
  CHECK(caf::deep_to_string(watch_header{version{3}, true}).find('3') !=
        std::string::npos);
}
