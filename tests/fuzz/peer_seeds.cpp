#include "config/runs/shared_settings.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/protocol.hpp"
#include "messages/run_record.hpp"
#include "messages/transport/chunked/chunked.hpp"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/shm/shm_carrier.hpp"
#include "messages/transport/stream/stream_carrier.hpp"
#include "tests/fuzz/descriptions.hpp"
#include "tests/fuzz/headers.hpp"
#include "tests/fuzz/seeds.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/sockets.hpp"
#include "tests/support/wire.hpp"

#include <sys/socket.h>

namespace troupe::fuzz {

using namespace transport;

namespace {

std::string to_text(const caf::byte_buffer& from) {
  return {reinterpret_cast<const char*>(from.data()), from.size()};
}

std::string hello_seed() {
  proto::Hello out;
  out.set_protocol(protocol_version);
  out.set_role("worker");
  out.set_name("host:42");
  for (auto& [key, value] : config::shared_settings({})) {
    auto* one = out.add_explicit_();
    one->set_key(key);
    one->set_value(value);
  }
  return out.SerializeAsString();
}

std::string welcome_seed() {
  proto::Welcome out;
  out.set_accepted(true);
  out.set_protocol(protocol_version);
  out.set_parameters(100);
  out.set_compressed_parameters(90);
  out.set_element_type(1);
  out.mutable_paths()->set_token("0123456789abcdef");
  out.add_shards()->set_port(4243);
  config::settings settings;
  settings.cluster.compression = "topk(share=0.1)";
  put(sample_description(settings), *out.mutable_description());
  return out.SerializeAsString();
}

// -- the actor connection -----------------------------------------------------

template <class... Ts>
std::string message_seed(const Ts&... parts) {
  return to_text(test::to_wire(caf::make_message(parts...)));
}

inputs message_seeds() {
  init_messages();
  transfer_id id{7};
  payload_shape shape{element_type::float32, 24};
  chunk piece{id, 8, test::random_payload(24, 1), 16, nullptr};
  release_header released{version{3}, life_number{1}, {{}, {}}};
  return {
    {"push", message_seed(push_atom_v, id, push_header{}, shape)},
    {"pull", message_seed(pull_atom_v, id, pull_header{})},
    {"release", message_seed(release_atom_v, id, released, shape)},
    {"score", message_seed(score_atom_v, score{})},
    {"chunk", message_seed(chunk_atom_v, piece)},
    {"credit", message_seed(credit_atom_v, id, uint64_t{16})},
    {"refuse", message_seed(refuse_atom_v, id,
                            caf::make_error(errc::expelled,
                                            std::string{"bad gradients"}))},
    {"register", message_seed(register_atom_v, registration_request{})},
    {"report", message_seed(report_atom_v,
                            part_report{{}, {}, {}, errc::none, {0.5, 2}})},
    {"order", message_seed(order_atom_v, shard_step{version{4}, {{}}, {8}, 1})},
    {"measure",
     message_seed(measure_atom_v, shard_step{version{4}, {{}}, {8}, 1})},
    {"norm", message_seed(norm_atom_v, shard_step{version{4}, {{}}, {8}, 1})},
    {"state",
     message_seed(state_atom_v, id,
                  state_request{{"/run/.tmp-draft-1-2", {{8, 24, 96}}},
                                {"/run/.tmp-draft-3-4", {{0, 48, 80}}}})},
    {"stop", message_seed(stop_atom_v, run_end{1, "the disk is full"})},
    {"hello", message_seed(hello_seed())},
  };
}

// -- frames -------------------------------------------------------------------

std::string received(socket& from) {
  std::string out(1 << 16, '\0');
  auto size = recv(from.get(), out.data(), out.size(), MSG_DONTWAIT);
  out.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return out;
}

/// What the other end of a path gets, behind the options of the target.
struct conversation {
  uint8_t options;
  payload tensor = test::random_payload(24, 1);
  config::overlap_rule overlap = config::overlap_rule::off;
  bool with_answer = true;
};

template <class Carrier, class... Ts>
std::string frames(const conversation& talk, const Ts&... more) {
  path_terms terms{talk.tensor.shape()};
  terms.overlap = talk.overlap;
  auto [here, there] = test::socket_pair();
  auto way = make_path<Carrier>(std::move(here), terms, more...);
  if (auto* early_gradients = way->early_gradients()) {
    early_gradients->begin(talk.tensor);
    early_gradients->ready(0);
    way->write_rest();
  }
  way->send({frame_kind::push, transfer_id{1}, write_header(push_header{}),
             talk.tensor});
  way->send(
    {frame_kind::pull, transfer_id{2}, write_header(pull_header{}), {}});
  way->send({frame_kind::score, {}, write_header(score{}), {}});
  if (talk.with_answer)
    way->send({frame_kind::release, transfer_id{3},
               write_header(release_header{}), talk.tensor});
  way->send({frame_kind::refusal,
             transfer_id{4},
             write_header(refusal{errc::wrong_size, "too small"}),
             {}});
  return number(talk.options) + received(there);
}

/// A gradient as the target wants it compressed.
payload compressed_gradient() {
  auto codec = make_codec({config::compression_kind::int8}, 16, 8);
  payload_buffer out{codec->compressed()};
  std::vector<float> numbers(24, 0.5F);
  codec->pack(numbers, {}, {}, out.bytes());
  return std::move(out).seal();
}

inputs frame_seeds() {
  auto memory = std::make_shared<shared_memory>();
  auto plain = frames<stream_carrier>({0});
  return {
    {"stream", plain},
    {"packed", frames<stream_carrier>({8, compressed_gradient()})},
    {"early", number(uint8_t{6}) + plain.substr(1)},
    {"ahead", frames<stream_carrier>(
                {2, test::random_payload(24, 2), config::overlap_rule::on})},
    // The file of but one region comes along.
    {"shared", frames<shm_carrier>({1, test::random_payload(24, 3),
                                    config::overlap_rule::off, false},
                                   memory, false)},
  };
}

inputs header_seeds() {
  inputs out;
  for (uint8_t kind = 1; kind < 32; ++kind)
    with_header_of(frame_kind{kind}, [&](const auto& empty) {
      out["kind-" + std::to_string(kind)] =
        number(kind) + to_text(write_header(empty));
    });
  release_header released{version{3}, life_number{1}, {{}, {}}};
  out["leases"] = number(static_cast<uint8_t>(frame_kind::release)) +
                  to_text(write_header(released));
  out["words"] =
    number(static_cast<uint8_t>(frame_kind::refusal)) +
    to_text(write_header(refusal{errc::expelled, "twenty bad gradients"}));
  return out;
}

// -- tensors ------------------------------------------------------------------

std::string chunks_seed() {
  auto tensor = test::random_payload(48, 1);
  chunk_sender from{transfer_id{1}, tensor, 64, 192};
  auto out = number(uint8_t{48});
  while (auto piece = from.next())
    out += to_text(test::to_wire(*piece));
  return out;
}

inputs compressed_seeds() {
  inputs out;
  for (auto kind :
       {config::compression_kind::fp16, config::compression_kind::bf16,
        config::compression_kind::int8, config::compression_kind::topk}) {
    auto codec = make_codec({kind, 0.25}, 33, 3);
    std::vector<float> numbers(36), lost(33);
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<float>(i) - 7.5F;
    std::string bytes(codec->compressed().bytes(), '\0');
    codec->pack(numbers, {}, lost,
                std::as_writable_bytes(std::span{bytes.data(), bytes.size()}));
    auto which = static_cast<uint8_t>(static_cast<int>(kind) - 1);
    out["kind-" + std::to_string(which)] =
      number(which) + number(uint8_t{2}) + number(uint8_t{3}) + bytes;
  }
  return out;
}

} // namespace

inputs peer_seeds(std::string_view format) {
  if (format == "hello")
    return {{"worker", hello_seed()}};
  if (format == "welcome")
    return {{"packed", welcome_seed()}};
  if (format == "message")
    return message_seeds();
  if (format == "frame")
    return frame_seeds();
  if (format == "header")
    return header_seeds();
  if (format == "chunks")
    return {{"whole", chunks_seed()}};
  if (format == "packed")
    return compressed_seeds();
  return {};
}

} // namespace troupe::fuzz
