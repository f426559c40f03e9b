#include "messages/transport/wire/path.hpp"

#include "messages/finite.hpp"

#include <algorithm>
#include <utility>

namespace troupe::transport {

// -- what was let go of -------------------------------------------------------

void let_go_ledger::on_entry(std::function<void()> call) {
  std::lock_guard guard{mutex_};
  call_ = std::move(call);
}

void let_go_ledger::enter(uint64_t number) {
  std::function<void()> call;
  {
    std::lock_guard guard{mutex_};
    numbers_.push_back(number);
    if (std::exchange(called_, true))
      return;
    call = call_;
  }
  if (call)
    call();
}

void let_go_ledger::heard() {
  std::lock_guard guard{mutex_};
  called_ = false;
}

std::vector<uint64_t> let_go_ledger::take(size_t most) {
  std::lock_guard guard{mutex_};
  if (numbers_.size() <= most)
    return std::exchange(numbers_, {});
  std::vector<uint64_t> out(numbers_.end() - static_cast<ptrdiff_t>(most),
                            numbers_.end());
  numbers_.resize(numbers_.size() - most);
  return out;
}

// -- out ----------------------------------------------------------------------

path::path(socket line, const path_terms& terms)
  : line_(std::move(line)), terms_(terms) {
  // nop
}

path::~path() {
  if (unfinished_)
    unfinished_->progress->break_off();
}

auto path::make(frame_kind kind, transfer_id request,
                const caf::byte_buffer& header, const payload& tensor,
                carriage carried) -> outgoing {
  outgoing out;
  frame_head head;
  head.kind = kind;
  head.request = request;
  head.shape = tensor.shape();
  head.header_bytes = static_cast<uint32_t>(header.size());
  head.carried = carried;
  if (tensor && carried == carriage::none && terms_.sends(kind, tensor.shape()))
    place(head, tensor, out); // Of another, the shape says enough.
  auto numbers = let_gos_->take(max_let_gos);
  head.let_gos = static_cast<uint32_t>(numbers.size());
  auto first = encode(head);
  out.bytes.resize(first.size() + 8 * numbers.size() + header.size());
  auto* at = reinterpret_cast<std::byte*>(out.bytes.data());
  at = std::ranges::copy(first, at).out;
  for (auto number : numbers) {
    put_number(at, number);
    at += 8;
  }
  std::ranges::copy(std::as_bytes(std::span{header}), at);
  return out;
}

bool path::send(frame_kind kind, transfer_id request,
                const caf::byte_buffer& header, const payload& tensor) try {
  if (keeps(kind, request, header, tensor))
    return false;
  std::lock_guard guard{sending_};
  return enqueue(make(kind, request, header, tensor));
} catch (const std::exception& err) {
  close(err.what());
  return false;
}

void path::send_now(frame_kind kind, transfer_id request,
                    const caf::byte_buffer& header, const payload& tensor,
                    carriage carried) try {
  std::function<void()> call;
  {
    std::lock_guard guard{sending_};
    if (enqueue(make(kind, request, header, tensor, carried)))
      call = on_waiting_;
  }
  if (call)
    call();
} catch (const std::exception& err) {
  close(err.what());
}

bool path::send_let_gos() try {
  let_gos_->heard();
  std::lock_guard guard{sending_};
  auto what = make(frame_kind::let_go, {}, {}, {});
  return what.bytes.size() > frame_head::size && enqueue(std::move(what));
} catch (const std::exception& err) {
  close(err.what());
  return false;
}

bool path::enqueue(outgoing what) {
  if (closed_ || (queue_.empty() && write(what, false)))
    return false;
  queue_.push_back(std::move(what));
  return !std::exchange(writer_called_, true);
}

void path::send_piece(uint64_t number, uint64_t offset, payload piece) {
  frame_head head;
  head.kind = frame_kind::piece;
  head.carried = carriage::follows;
  head.shape = piece.shape();
  head.region = number;
  head.offset = offset;
  outgoing out;
  auto bytes = encode(head);
  out.bytes.resize(bytes.size());
  std::ranges::copy(bytes, reinterpret_cast<std::byte*>(out.bytes.data()));
  out.tensor = std::move(piece);
  std::function<void()> call;
  {
    std::lock_guard guard{sending_};
    if (closed_)
      return;
    queue_.push_back(std::move(out));
    if (!std::exchange(writer_called_, true))
      call = on_waiting_;
  }
  if (call)
    call();
}

void path::on_waiting(const std::function<void()>& call) {
  auto waits = false;
  {
    std::lock_guard guard{sending_};
    on_waiting_ = call;
    waits = writer_called_;
  }
  if (waits)
    call();
}

/// True when all of it went.
bool path::write(outgoing& what, bool wait) {
  auto tensor = what.tensor.bytes();
  auto* data = const_cast<std::byte*>(tensor.data()); // It is only read.
  iovec all[] = {
    {what.bytes.data(), what.bytes.size()},
    {data + what.first, tensor.size() - what.first},
    {data, what.first},
  };
  std::span<iovec> parts{all};
  drop_front(parts, what.done);
  auto sent = line_.send(parts, wait, what.passes);
  if (sent > 0)
    what.passes = -1;
  what.done += sent;
  return parts.empty();
}

void path::write_rest() try {
  for (;;) {
    outgoing* next = nullptr;
    {
      std::lock_guard guard{sending_};
      if (queue_.empty() || closed_) {
        queue_.clear();
        writer_called_ = false;
        return;
      }
      next = &queue_.front(); // Stays in its place when others come.
    }
    write(*next, true);
    outgoing done; // Let go after the lock.
    std::lock_guard guard{sending_};
    done = std::move(queue_.front());
    queue_.pop_front();
  }
} catch (const std::exception& err) {
  close(err.what());
}

// -- in -----------------------------------------------------------------------

namespace {

/// How many bytes arrive between two notifications of a tensor's readers, or
/// two looks for NaN: few enough to be in the cache still.
constexpr size_t news = 256u << 10;

/// For an offer, and for frames without a tensor, the shape is enough.
bool brings_tensor(frame_kind kind) {
  return kind == frame_kind::push || kind == frame_kind::release ||
         kind == frame_kind::due || has_activations(kind);
}

} // namespace

std::optional<frame> path::receive() {
  finish();
  for (;;) {
    head_bytes first;
    std::vector<descriptor> passed;
    iovec start[] = {{first.data(), first.size()}};
    if (!line_.receive(start, &passed)) {
      close("the other end closed the path");
      return std::nullopt;
    }
    if (auto out = receive_frame(decode(first), passed); out && !takes(*out))
      return out;
  }
}

/// Nothing if the frame was a piece of a later tensor.
std::optional<frame> path::receive_frame(const frame_head& head,
                                         std::vector<descriptor>& passed) {
  frame out;
  out.kind = head.kind;
  out.request = head.request;
  out.header.resize(head.header_bytes);
  std::vector<std::byte> numbers(size_t{8} * head.let_gos);
  auto follows = open_tensor(head, passed, out);
  if (hands_out_early(head) && !follows.bytes.empty())
    hand_out(out, follows);
  iovec rest[] = {{numbers.data(), numbers.size()},
                  {out.header.data(), out.header.size()}};
  auto more = numbers.size() + out.header.size() > 0;
  if (more && !line_.receive(rest, nullptr))
    throw path_error{"the connection ended in the middle of a frame"};
  auto finite = receive_tensor(head, follows);
  if (head.kind == frame_kind::piece)
    take_piece(finite);
  else if (finite)
    out.tensor.know_finite(*finite);
  for (size_t i = 0; i < numbers.size(); i += 8)
    let_go(get_number(numbers.data() + i));
  return head.kind == frame_kind::piece ? std::nullopt
                                        : std::optional{std::move(out)};
}

std::optional<bool> path::receive_tensor(const frame_head& head,
                                         const incoming& what) {
  auto type = head.shape.type;
  auto checks = terms_.checks_numbers && type != element_type::byte &&
                !has_activations(head.kind);
  auto finite = true;
  for (auto left :
       {what.bytes.subspan(what.first), what.bytes.first(what.first)})
    while (!left.empty()) {
      auto part =
        left.first(checks ? std::min(news, left.size()) : left.size());
      left = left.subspan(part.size());
      iovec next[] = {{part.data(), part.size()}};
      if (!line_.receive(next, nullptr))
        throw path_error{"the connection ended in the middle of a frame"};
      finite = finite && (!checks || all_finite(part, type));
    }
  return checks && !what.bytes.empty() ? std::optional{finite} : std::nullopt;
}

path::incoming path::open_tensor(const frame_head& head,
                                 std::vector<descriptor>& passed, frame& out) {
  incoming follows;
  auto fits = terms_.takes(head.kind, head.shape);
  if (head.kind == frame_kind::piece)
    follows.bytes = expect_piece(head);
  else if (head.carried == carriage::none && fits && head.shape.bytes() > 0 &&
           brings_tensor(head.kind))
    throw path_error{"a tensor of the right size without its bytes"};
  else if (head.carried == carriage::none)
    out.tensor = payload{head.shape, nullptr, nullptr};
  else if (!fits)
    throw path_error{"a tensor of another size than the model's"};
  else
    out.tensor = expect(head, passed, follows);
  return follows;
}

std::span<std::byte> path::expect_piece(const frame_head&) {
  throw path_error{"a piece of a tensor on a path that sends them whole"};
}

void path::take_piece(std::optional<bool>) {
  // nop
}

// -- what arrives while it is used --------------------------------------------

/// The tensor comes in with the next call of `receive`.
void path::hand_out(frame& out, incoming& follows) {
  auto progress =
    std::make_shared<arrival>(follows.bytes.size(), follows.first);
  out.tensor = payload{out.tensor.shape(), out.tensor.owner(),
                       out.tensor.bytes().data(), progress};
  unfinished_ = unfinished{std::exchange(follows, {}), out.tensor, progress};
}

void path::finish() {
  if (!unfinished_)
    return;
  auto left = *std::exchange(unfinished_, std::nullopt);
  auto [bytes, first] = left.what;
  iovec both[] = {{bytes.data() + first, bytes.size() - first},
                  {bytes.data(), first}};
  try {
    uint64_t there = 0;
    for (const auto& part : both)
      for (size_t at = 0; at < part.iov_len; at += news) {
        auto size = std::min(news, part.iov_len - at);
        iovec next[] = {{static_cast<std::byte*>(part.iov_base) + at, size}};
        if (!line_.receive(next, nullptr))
          throw path_error{"the connection ended in the middle of a tensor"};
        left.progress->reach(there += size);
      }
  } catch (...) {
    left.progress->break_off();
    throw;
  }
}

void path::on_frame(std::function<void(frame)> call) {
  std::lock_guard guard{closing_};
  on_frame_ = std::move(call);
}

void path::hand_in(frame what) {
  std::function<void(frame)> call;
  {
    std::lock_guard guard{closing_};
    call = on_frame_;
  }
  if (call)
    call(std::move(what));
}

// -- the end ------------------------------------------------------------------

void path::close(const std::string& why) {
  {
    std::lock_guard guard{closing_};
    if (!closed_.exchange(true))
      why_ = why;
    line_.shutdown();
  }
  work();
}

void path::on_work(std::function<void()> call) {
  {
    std::lock_guard guard{closing_};
    on_work_ = std::move(call);
  }
  work();
}

void path::work() const {
  std::function<void()> call;
  {
    std::lock_guard guard{closing_};
    call = on_work_;
  }
  if (call)
    call();
}

std::string path::why_closed() const {
  std::lock_guard guard{closing_};
  return why_;
}

} // namespace troupe::transport
