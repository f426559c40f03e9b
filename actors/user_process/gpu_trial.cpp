#include "actors/user_process/gpu_trial.hpp"

#include "config/text/failure.hpp"
#include "messages/payload_memory.hpp"
#include "models/device/accelerator.hpp"

#include <utility>

namespace troupe::external {

namespace {

struct offer {
  std::shared_ptr<models::shared_gpu_memory> memory; ///< Null: none.
  std::string body;                                  ///< Of the trial's frame.
};

offer make_offer(const std::string& gpu) try {
  models::open_cuda();
  auto memory =
    std::make_shared<models::shared_gpu_memory>(models::gpu_at(gpu));
  auto block = memory->find(memory->take_block(memory_page).get());
  return {std::move(memory), body_writer{}
                               .put(std::string_view{})
                               .put(block->bytes)
                               .put_bytes(block->handle.bytes)
                               .take_bytes()};
} catch (const run_error& why) {
  return {nullptr,
          body_writer{}.put(std::string_view{why.what()}).take_bytes()};
}

} // namespace

std::shared_ptr<models::shared_gpu_memory> try_gpu(process_line& line,
                                                   const std::string& gpu) {
  auto made = make_offer(gpu);
  line.send(process_frame_kind::trial, 0, made.body);
  if (!made.memory)
    return nullptr;
  auto answer = line.receive();
  if (!answer)
    throw run_error(line.why_closed());
  body_reader from{std::as_bytes(std::span{answer->body})};
  auto why_not = from.text();
  if (answer->kind != process_frame_kind::tried || !from.complete())
    throw run_error("process " + std::to_string(line.pid()) +
                    " did not say whether it can open memory of its GPU");
  return why_not.empty() ? std::move(made.memory) : nullptr;
}

} // namespace troupe::external
