#include "apps/startup/front_door.hpp"

#include "actors/runtime/supervisor.hpp"
#include "config/text/version.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/protocol.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <pthread.h>

#include <ctime>
#include <mutex>
#include <string>
#include <utility>

namespace troupe::app {

struct front_door::sign {
  std::mutex mutex;
  admission_actor inside;
  clockid_t work{}; ///< Of the thread that starts the server.

  admission_actor leads_to() {
    std::lock_guard guard{mutex};
    return inside;
  }
};

namespace {

/// A thread's processor time in microseconds: a thread that only waits does no
/// work.
uint64_t work_until_now(clockid_t of) {
  timespec t{};
  clock_gettime(of, &t);
  return 1 + static_cast<uint64_t>(t.tv_sec) * 1'000'000 +
         static_cast<uint64_t>(t.tv_nsec) / 1000;
}

std::string asks_to_wait(uint64_t work) {
  proto::Welcome out;
  out.set_protocol(protocol_version);
  out.set_troupe_version(std::string{config::version()});
  out.set_refusal("it reads its data and has not begun yet");
  out.set_later(true);
  out.set_start_work(work);
  return out.SerializeAsString();
}

} // namespace

front_door::front_door(caf::actor_system& system, config::address where,
                       const transport::credentials& own, const speech& say)
  : where_(std::move(where)), acceptor_(open_port(where_, own, say)),
    sign_(std::make_shared<sign>()) {
  pthread_getcpuclockid(pthread_self(), &sign_->work);
  handle_ = system.spawn([sign = sign_](admission_actor::pointer self) {
    self->set_default_handler(caf::drop); // Of strangers; CAF's own prints it.
    return admission_actor::behavior_type{
      [self, sign](const std::string& hello)
        -> caf::result<std::string, caf::strong_actor_ptr> {
        if (auto inside = sign->leads_to())
          return self->delegate(inside, hello);
        return {asks_to_wait(work_until_now(sign->work)),
                caf::strong_actor_ptr{}};
      }};
  });
  door_ = publish(system, handle_, acceptor_, given_, say);
  where_.port = acceptor_->port();
}

front_door::~front_door() {
  if (!door_)
    return;
  acceptor_->close();
  caf::anon_send_exit(handle_, caf::exit_reason::user_shutdown);
}

void front_door::lead_to(const admission_actor& inside) {
  std::lock_guard guard{sign_->mutex};
  sign_->inside = inside;
}

void front_door::leave_to(const admission_actor& inside,
                          const supervisor_actor& supervisor) {
  lead_to(inside);
  inside->attach_functor(
    [handle = handle_, acceptor = acceptor_, door = std::move(door_)] {
      acceptor->close();
      caf::anon_send_exit(handle, caf::exit_reason::user_shutdown);
    });
  put_under(supervisor, "admission", inside);
  put_under(supervisor, "front door", handle_);
}

} // namespace troupe::app
