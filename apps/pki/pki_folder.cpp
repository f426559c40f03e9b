#include "apps/pki/pki_folder.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "messages/transport/tls/pem_files.hpp"
#include "models/storage/durable_file.hpp"

#include <openssl/rand.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;
using transport::certificate_facts;

using transport::seconds_of_day;

constexpr const char* authority_certificate = "ca.crt";
constexpr const char* authority_key = "ca.key";
constexpr const char* node_certificate = "tls.crt";
constexpr const char* node_key = "tls.key";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

/// A folder of its owner alone, in which files are written before they get
/// their names. What is left in it goes with it.
class draft_folder {
public:
  explicit draft_folder(const fs::path& in) {
    auto name = (in / ".draft-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw run_error(in.string() +
                      ": cannot write there: " + std::strerror(errno));
    path_ = name;
  }

  ~draft_folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  draft_folder(const draft_folder&) = delete;
  draft_folder& operator=(const draft_folder&) = delete;

  void write(const char* name, std::string_view text, mode_t mode) {
    models::replace_file(path_ / name, text);
    if (::chmod((path_ / name).c_str(), mode) != 0)
      throw run_error((path_ / name).string() +
                      ": cannot set its mode: " + std::strerror(errno));
  }

  /// Files that are there already are replaced.
  void move_files(const fs::path& to) {
    // The certificate comes last: with its key missing it would be of no use.
    for (const auto* name :
         {authority_key, node_key, authority_certificate, node_certificate})
      if (is_there(path_ / name))
        rename(path_ / name, to / name);
    models::sync_folder(to);
  }

  void become(const fs::path& folder) {
    rename(path_, folder);
    models::sync_folder(folder.parent_path());
  }

private:
  static void rename(const fs::path& from, const fs::path& to) {
    if (::rename(from.c_str(), to.c_str()) != 0)
      throw run_error(to.string() +
                      ": cannot be written: " + std::strerror(errno));
  }

  fs::path path_;
};

constexpr mode_t for_all = 0644;
constexpr mode_t for_owner = 0600;

std::string random_digits() {
  unsigned char bytes[4];
  transport::require_openssl(RAND_bytes(bytes, sizeof bytes) == 1,
                             "get random bytes");
  std::string out;
  for (auto byte : bytes)
    for (auto digit : {byte >> 4, byte & 15})
      out += "0123456789abcdef"[digit];
  return out;
}

key_holder read_authority(const fs::path& folder) {
  if (!is_authority_folder(folder))
    throw usage_error(folder.string() +
                      ": holds no certificate authority (ca.crt and ca.key); "
                      "trainer_node pki init --out DIR makes one");
  auto chain = transport::read_certificates(folder / authority_certificate);
  auto key = transport::read_key(folder / authority_key);
  if (X509_check_private_key(chain.front().get(), key.get()) != 1)
    throw run_error((folder / authority_key).string() + ": is not the key of " +
                    (folder / authority_certificate).string());
  auto facts = transport::facts_of(chain.front().get());
  if (facts.not_after < std::time(nullptr))
    throw run_error((folder / authority_certificate).string() +
                    ": has expired on " +
                    transport::date_text(facts.not_after) +
                    ": make a new one in another folder, and certificates "
                    "with it; nodes may believe both while they change");
  return {std::move(chain.front()), std::move(key)};
}

} // namespace

bool is_authority_folder(const fs::path& path) {
  return is_there(path / authority_certificate) &&
         is_there(path / authority_key);
}

void init_authority(const fs::path& folder, uint64_t days, bool replace) {
  for (const auto* name : {authority_key, authority_certificate})
    if (!replace && is_there(folder / name))
      throw usage_error((folder / name).string() +
                        ": is there already, and certificates that it has "
                        "issued need it: name another folder, or give "
                        "--replace");
  models::make_folder(folder);
  certificate_draft draft;
  draft.name = "Troupe CA " + random_digits();
  draft.is_authority = true;
  set_dates(draft, days, nullptr);
  auto made = make_holder(draft, nullptr);
  draft_folder files{folder};
  files.write(authority_key, to_pem(made.key.get()), for_owner);
  files.write(authority_certificate, to_pem(made.certificate.get()), for_all);
  files.move_files(folder);
}

certificate_facts issue_node(const fs::path& folder,
                             const node_request& request) {
  auto authority = read_authority(folder);
  auto node = folder / request.name;
  if (!request.replace && is_there(node))
    throw usage_error(node.string() +
                      ": is there already: renew it (trainer_node pki renew), "
                      "name another one, or give --replace");
  certificate_draft draft;
  draft.name = request.name;
  draft.hosts = request.hosts;
  draft.roles = request.roles;
  set_dates(draft, request.days, &authority);
  auto made = make_holder(draft, &authority);
  draft_folder files{folder};
  files.write(node_key, to_pem(made.key.get()), for_owner);
  files.write(authority_certificate, to_pem(authority.certificate.get()),
              for_all);
  files.write(node_certificate, to_pem(made.certificate.get()), for_all);
  if (is_there(node))
    files.move_files(node);
  else
    files.become(node);
  return transport::facts_of(made.certificate.get());
}

certificate_facts renew_node(const fs::path& node,
                             std::optional<uint64_t> days) {
  auto path = node / node_certificate;
  auto chain = transport::read_certificates(path);
  auto key = transport::read_key(node / node_key);
  auto folder =
    fs::absolute(node / "").lexically_normal().parent_path().parent_path();
  auto authority = read_authority(folder);
  const auto* before = chain.front().get();
  if (X509_verify(const_cast<X509*>(before),
                  X509_get0_pubkey(authority.certificate.get())) != 1)
    throw usage_error(path.string() + ": was not issued by " +
                      (folder / authority_certificate).string() +
                      ": renew it where it was made");
  auto facts = transport::facts_of(before);
  certificate_draft draft;
  draft.name = facts.name;
  draft.hosts = facts.hosts;
  draft.roles = facts.roles;
  auto length = facts.not_after - facts.not_before - allowance;
  set_dates(
    draft,
    days ? *days
         : std::max<uint64_t>(static_cast<uint64_t>(
                                (length + seconds_of_day / 2) / seconds_of_day),
                              1),
    &authority);
  auto made = make_certificate(draft, key.get(), &authority);
  models::replace_file(path, to_pem(made.get()));
  return transport::facts_of(made.get());
}

std::vector<fs::path> expiring_nodes(const fs::path& folder, uint64_t days) {
  std::vector<fs::path> out;
  auto until =
    std::time(nullptr) + static_cast<std::time_t>(days) * seconds_of_day;
  for (const auto& each : fs::directory_iterator{folder}) {
    auto path = each.path() / node_certificate;
    // What begins with a dot is a draft that was left behind.
    if (!is_there(path) || each.path().filename().string().starts_with('.'))
      continue;
    auto chain = transport::read_certificates(path);
    if (transport::facts_of(chain.front().get()).not_after <= until)
      out.push_back(each.path());
  }
  std::ranges::sort(out);
  return out;
}

} // namespace troupe::app
