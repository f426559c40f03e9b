#include "messages/transport/wire/path.hpp"

#include "messages/finite.hpp"

#include <algorithm>

namespace troupe::transport {

path::path(socket line, const path_terms& terms, const carrier_maker& make)
  : line_(std::move(line)), terms_(terms), carrier_(make(*this)) {
  // nop
}

path::~path() {
  if (unfinished_)
    unfinished_->progress->break_off();
}

// -- out ----------------------------------------------------------------------

path::outgoing path::encode_frame(const frame& message) {
  const auto& [kind, request, header, tensor] = message;
  outgoing out;
  frame_head head;
  head.kind = kind;
  head.request = request;
  head.shape = tensor.shape();
  head.header_bytes = static_cast<uint32_t>(header.size());
  // Of a tensor whose shape this path does not send, the head tells only the
  // shape: that is enough for the other end to refuse it.
  if (tensor && terms_.sends(kind, tensor.shape()))
    out.tensor = carrier_->place(head, tensor);
  auto numbers = let_gos_->remove_entries(max_let_gos);
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

bool path::send(const frame& message) try {
  std::lock_guard guard{sending_};
  return enqueue(encode_frame(message));
} catch (const std::exception& err) {
  close(err.what());
  return false;
}

void path::send_now(const frame& message) try {
  std::function<void()> call;
  {
    std::lock_guard guard{sending_};
    if (enqueue(encode_frame(message)))
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
  auto next = encode_frame({});
  return next.bytes.size() > frame_head::size && enqueue(std::move(next));
} catch (const std::exception& err) {
  close(err.what());
  return false;
}

bool path::enqueue(outgoing next) {
  if (closed_ || (queue_.empty() && write(next, false)))
    return false;
  return append(std::move(next));
}

/// True when the writer must be called.
bool path::append(outgoing next) {
  queue_.push_back(std::move(next));
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
  out.tensor.follows = std::move(piece);
  std::function<void()> call;
  {
    std::lock_guard guard{sending_};
    if (!closed_ && append(std::move(out)))
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

/// True when everything was sent.
bool path::write(outgoing& next, bool wait) {
  auto tensor = next.tensor.follows.host_bytes();
  auto first = next.tensor.first;
  auto* data = const_cast<std::byte*>(tensor.data()); // It is only read.
  iovec all[] = {
    {next.bytes.data(), next.bytes.size()},
    {data + first, tensor.size() - first},
    {data, first},
  };
  std::span<iovec> parts{all};
  drop_front(parts, next.done);
  auto sent = line_.send(parts, wait, next.tensor.file);
  if (sent > 0)
    next.tensor.file = -1;
  next.done += sent;
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
      next = &queue_.front(); // A deque: appending does not move it.
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

} // namespace

std::optional<frame> path::receive() {
  receive_rest();
  for (;;) {
    head_bytes first;
    std::vector<descriptor> files;
    iovec start[] = {{first.data(), first.size()}};
    if (!line_.receive(start, &files)) {
      close("the other end closed the path");
      return std::nullopt;
    }
    auto out = receive_frame(decode(first), files);
    if (!carrier_->intercept(out))
      return out;
  }
}

frame path::receive_frame(const frame_head& head,
                          std::vector<descriptor>& files) {
  frame out;
  out.kind = head.kind;
  out.request = head.request;
  out.header.resize(head.header_bytes);
  std::vector<std::byte> numbers(size_t{8} * head.let_gos);
  auto incoming = open_tensor(head, files);
  if (incoming.early && !incoming.follows.empty())
    hand_out_early(incoming);
  iovec rest[] = {{numbers.data(), numbers.size()},
                  {out.header.data(), out.header.size()}};
  auto more = numbers.size() + out.header.size() > 0;
  if (more && !line_.receive(rest, nullptr))
    throw path_error{"the connection ended in the middle of a frame"};
  auto finite = receive_tensor(head, incoming);
  out.tensor = std::move(incoming.tensor);
  if (finite)
    out.tensor.know_finite(*finite);
  for (size_t i = 0; i < numbers.size(); i += 8)
    carrier_->let_go(get_number(numbers.data() + i));
  return out;
}

/// Receives the bytes behind a frame. Returns whether the numbers are finite,
/// if that is checked.
std::optional<bool> path::receive_tensor(const frame_head& head,
                                         const incoming_tensor& incoming) {
  auto [bytes, first] = std::pair{incoming.follows, incoming.first};
  auto type = head.shape.type;
  auto checks = terms_.checks_numbers && type != element_type::byte &&
                !has_activations(head.kind);
  auto finite = true;
  for (auto left : {bytes.subspan(first), bytes.first(first)})
    while (!left.empty()) {
      auto part =
        left.first(checks ? std::min(news, left.size()) : left.size());
      left = left.subspan(part.size());
      iovec next[] = {{part.data(), part.size()}};
      if (!line_.receive(next, nullptr))
        throw path_error{"the connection ended in the middle of a frame"};
      finite = finite && (!checks || all_finite(part, type));
    }
  return checks && !bytes.empty() ? std::optional{finite} : std::nullopt;
}

incoming_tensor path::open_tensor(const frame_head& head,
                                  std::vector<descriptor>& files) {
  if (head.kind == frame_kind::piece)
    return carrier_->expect(head, files);
  auto fits = terms_.takes(head.kind, head.shape);
  if (head.carried == carriage::none && fits && head.shape.bytes() > 0 &&
      brings_tensor(head.kind))
    throw path_error{"a tensor of the right size without its bytes"};
  if (head.carried == carriage::none)
    return {payload{head.shape, nullptr, nullptr}, {}, 0, false};
  if (!fits)
    throw path_error{"a tensor of another size than the model's"};
  return carrier_->expect(head, files);
}

// -- what arrives while it is used --------------------------------------------

/// The bytes of the tensor are received by the next call of `receive`.
void path::hand_out_early(incoming_tensor& incoming) {
  auto progress =
    std::make_shared<arrival>(incoming.follows.size(), incoming.first);
  auto& tensor = incoming.tensor;
  tensor = {tensor.shape(), tensor.owner(), tensor.host_bytes().data(),
            progress};
  unfinished_ = unfinished{incoming, progress};
  incoming.follows = {};
  incoming.first = 0;
}

void path::receive_rest() {
  if (!unfinished_)
    return;
  auto [rest, progress] = *std::exchange(unfinished_, std::nullopt);
  auto* data = rest.follows.data();
  iovec both[] = {{data + rest.first, rest.follows.size() - rest.first},
                  {data, rest.first}};
  try {
    uint64_t there = 0;
    for (const auto& part : both)
      for (size_t at = 0; at < part.iov_len; at += news) {
        auto size = std::min(news, part.iov_len - at);
        iovec next[] = {{static_cast<std::byte*>(part.iov_base) + at, size}};
        if (!line_.receive(next, nullptr))
          throw path_error{"the connection ended in the middle of a tensor"};
        progress->reach(there += size);
      }
  } catch (...) {
    progress->break_off();
    throw;
  }
}

// -- the end ------------------------------------------------------------------

void path::close(const std::string& why) {
  {
    std::lock_guard guard{closing_};
    if (!closed_.exchange(true))
      why_ = why;
    line_.shutdown();
  }
  if (carrier_) // Not yet, while it is being made.
    carrier_->end();
}

std::string path::why_closed() const {
  std::lock_guard guard{closing_};
  return why_;
}

} // namespace troupe::transport
