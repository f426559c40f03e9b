// The wire format, byte by byte. When one of these fails, two releases no
// longer understand each other: put the number back, or raise protocol_version.

#include "messages/interfaces.hpp"
#include "messages/protocol.hpp"
#include "tests/support/wire.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

template <class T>
constexpr int id_of = caf::type_id_v<T>;

} // namespace

TEST_CASE("the protocol has this number") {
  CHECK(protocol_version == 27);
}

TEST_CASE("types have these ids") {
  CHECK(caf::first_custom_type_id == 200);
  CHECK(id_of<errc> == 200);
  CHECK(id_of<worker_id> == 201);
  CHECK(id_of<shard_id> == 202);
  CHECK(id_of<version> == 203);
  CHECK(id_of<life_number> == 204);
  CHECK(id_of<sequence> == 205);
  CHECK(id_of<lease_id> == 206);
  CHECK(id_of<transfer_id> == 207);
  CHECK(id_of<push_id> == 208);
  CHECK(id_of<lease> == 209);
  CHECK(id_of<push_header> == 210);
  CHECK(id_of<pull_header> == 211);
  CHECK(id_of<release_header> == 212);
  CHECK(id_of<watch_header> == 213);
  CHECK(id_of<score> == 214);
  CHECK(id_of<registration_request> == 215);
  CHECK(id_of<registration> == 216);
  CHECK(id_of<run_end> == 217);
  CHECK(id_of<element_type> == 218);
  CHECK(id_of<payload_shape> == 219);
  CHECK(id_of<payload> == 220);
  CHECK(id_of<chunk> == 221);
  CHECK(id_of<snapshot_ptr> == 222);
  CHECK(id_of<note_ptr> == 223);
  CHECK(id_of<loaded_batch> == 224);
  CHECK(id_of<compute_task> == 225);
  CHECK(id_of<gradient_report> == 226);
  CHECK(id_of<std::vector<worker_id>> == 227);
  CHECK(id_of<std::vector<lease>> == 228);
  CHECK(id_of<frame_ptr> == 229);
  CHECK(id_of<request_id> == 230);
  CHECK(id_of<part_report> == 231);
  CHECK(id_of<shard_step> == 232);
  CHECK(id_of<shard_state> == 233);
  CHECK(id_of<std::vector<push_id>> == 234);
  CHECK(id_of<shard_fetch_ptr> == 235);
  CHECK(id_of<owned_data> == 236);
  CHECK(id_of<gradient_way> == 237);
  CHECK(id_of<module_call> == 238);
  CHECK(id_of<module_answer> == 239);
  CHECK(id_of<stage_context_ptr> == 240);
  CHECK(id_of<context_part> == 241);
  CHECK(id_of<shard_squares> == 242);
  CHECK(id_of<shard_measures> == 244);
  CHECK(id_of<watch_request> == 245);
  CHECK(id_of<state_request> == 243);
  CHECK(id_of<std::vector<config::address>> == 246);
  CHECK(caf::id_block::troupe_data::end == 247);
}

TEST_CASE("atoms have these ids") {
  CHECK(id_of<push_atom> == 400);
  CHECK(id_of<pull_atom> == 401);
  CHECK(id_of<watch_atom> == 402);
  CHECK(id_of<score_atom> == 403);
  CHECK(id_of<release_atom> == 404);
  CHECK(id_of<refuse_atom> == 405);
  CHECK(id_of<chunk_atom> == 406);
  CHECK(id_of<credit_atom> == 407);
  CHECK(id_of<attach_atom> == 408);
  CHECK(id_of<detach_atom> == 409);
  CHECK(id_of<cancel_atom> == 410);
  CHECK(id_of<ping_atom> == 411);
  CHECK(id_of<stop_atom> == 412);
  CHECK(id_of<members_atom> == 413);
  CHECK(id_of<register_atom> == 414);
  CHECK(id_of<enlist_atom> == 415);
  CHECK(id_of<join_atom> == 416);
  CHECK(id_of<leave_atom> == 417);
  CHECK(id_of<evaluators_atom> == 418);
  CHECK(id_of<ending_atom> == 419);
  CHECK(id_of<ended_atom> == 420);
  CHECK(id_of<note_atom> == 421);
  CHECK(id_of<finish_atom> == 422);
  CHECK(id_of<write_atom> == 423);
  CHECK(id_of<compute_atom> == 424);
  CHECK(id_of<evaluate_atom> == 425);
  CHECK(id_of<load_atom> == 426);
  CHECK(id_of<tick_atom> == 427);
  CHECK(id_of<connect_atom> == 428);
  CHECK(id_of<frame_atom> == 429);
  CHECK(id_of<order_atom> == 430);
  CHECK(id_of<report_atom> == 431);
  CHECK(id_of<state_atom> == 432);
  CHECK(id_of<begin_atom> == 433);
  CHECK(id_of<begun_atom> == 434);
  CHECK(id_of<coordinator_atom> == 435);
  CHECK(id_of<shards_atom> == 436);
  CHECK(id_of<supervise_atom> == 437);
  CHECK(id_of<fetch_atom> == 438);
  CHECK(id_of<forward_atom> == 439);
  CHECK(id_of<backward_atom> == 440);
  CHECK(id_of<norm_atom> == 441);
  CHECK(id_of<measure_atom> == 442);
  CHECK(id_of<sum_atom> == 443);
  CHECK(id_of<policy_atom> == 444);
  CHECK(caf::id_block::troupe_atoms::end == 445);
}

TEST_CASE("handles of actors have these ids") {
  CHECK(id_of<parameter_server_actor> == 600);
  CHECK(id_of<worker_actor> == 601);
  CHECK(id_of<evaluator_actor> == 602);
  CHECK(id_of<coordinator_actor> == 603);
  CHECK(id_of<gateway_actor> == 604);
  CHECK(id_of<chunk_end_actor> == 605);
  CHECK(id_of<remote_shard_actor> == 606);
  CHECK(id_of<shard_registrar_actor> == 607);
  CHECK(id_of<std::vector<remote_shard_actor>> == 608);
  CHECK(caf::id_block::troupe_handles::end == 609);
}

TEST_CASE("a push header has these bytes") {
  push_header header;
  header.id = {worker_id{1}, life_number{2}, sequence{3}};
  header.server = life_number{4};
  header.computed_on = version{5};
  header.from = lease_id{6};
  header.samples = 64;
  header.loss = 1e-310;
  header.compute_seconds = 0.5;
  header.wait_seconds = -0.0;
  header.data_seconds = 2;
  header.idle_seconds = 0.25;
  header.request = sequence{7};
  header.skipped = 8;
  header.also = {lease_id{9}, lease_id{10}};
  header.metrics = {{"f1", 0.5}};
  header.inner_steps = 11;
  header.early_steps = 12;
  CHECK(hex(to_wire(header)) == "00000001"
                                "00000002"
                                "0000000000000003" // id
                                "00000004"         // server
                                "0000000000000005" // computed_on
                                "0000000000000006" // from
                                "0000000000000040" // samples
                                "000012688b70e62b" // loss, IEEE 754
                                "3fe0000000000000" // compute_seconds
                                "8000000000000000" // wait_seconds
                                "4000000000000000" // data_seconds
                                "3fd0000000000000" // idle_seconds
                                "0000000000000007" // request
                                "0000000000000008" // skipped
                                "02"               // also
                                "0000000000000009"
                                "000000000000000a"
                                "01" // metrics
                                "02"
                                "6631" // f1
                                "3fe0000000000000"
                                "000000000000000b" // inner_steps
                                "0000000c");       // early_steps
}

TEST_CASE("a score has these bytes") {
  score found{version{1}, {{"f1", 0.5}}, 2, 0.25};
  CHECK(hex(to_wire(found)) == "0000000000000001" // weights
                               "01"               // metrics
                               "02"
                               "6631" // f1
                               "3fe0000000000000"
                               "0000000000000002"   // samples
                               "3fd0000000000000"); // seconds
}

TEST_CASE("a release header has these bytes") {
  release_header header;
  header.weights = version{0x0102030405060708};
  header.server = life_number{9};
  header.leases = {{lease_id{1}, 2, 3, 4}, {lease_id{5}, 6, 7, 8, 9}};
  header.dropped = true;
  header.steps = 10;
  header.fragment = 11;
  header.goes_on = true;
  CHECK(hex(to_wire(header)) == "0102030405060708" // weights
                                "00000009"         // server
                                "02"               // leases
                                "0000000000000001"
                                "0000000000000002"
                                "0000000000000003"
                                "0000000000000004"
                                "00000000"
                                "0000000000000005"
                                "0000000000000006"
                                "0000000000000007"
                                "0000000000000008"
                                "00000009"
                                "01"       // dropped
                                "0000000a" // steps
                                "0000000b" // fragment
                                "01");     // goes_on
}
