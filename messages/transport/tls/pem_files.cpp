#include "messages/transport/tls/pem_files.hpp"

#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <string_view>

namespace troupe::transport {

namespace {

namespace fs = std::filesystem;

/// Bytes; a chain of certificates has some 2 KiB each.
constexpr uint64_t longest_file = 1u << 20;

[[noreturn]] void refuse(const fs::path& path, const std::string& line) {
  ERR_clear_error();
  throw run_error(path.string() + ": " + line);
}

std::string read_pem(const fs::path& path) {
  try {
    return config::read_text(path, longest_file);
  } catch (const config::unreadable& why) {
    throw run_error(path.string() + ": cannot be read: " + why.what() +
                    "; trainer_node pki issue makes the files of a node");
  }
}

/// Throws unless what begins with `begin` goes on to `end`.
void require_whole(const fs::path& path, std::string_view text,
                   std::string_view noun) {
  auto at = text.rfind("-----BEGIN ");
  if (text.empty())
    refuse(path, "is empty; copy it again");
  // In DER form it is one sequence: 0x30, and a length in several bytes.
  if (at == text.npos && text.starts_with("\x30\x82"))
    refuse(path, "is in DER form, and PEM is needed: openssl " +
                   std::string{noun == "certificate" ? "x509" : "pkey"} +
                   " -inform der -in FILE -out FILE.pem");
  if (at == text.npos)
    refuse(path, "holds no " + std::string{noun} +
                   " in PEM form, which begins with -----BEGIN; name another "
                   "file");
  if (text.find("-----END ", at) == text.npos)
    refuse(path, "is cut short: its last -----BEGIN has no -----END; copy it "
                 "again");
}

bio_ptr view_of(std::string_view text) {
  bio_ptr out{BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
  require_openssl(out != nullptr, "read a file in PEM form");
  return out;
}

/// Gives no passphrase: OpenSSL's own function would ask on the terminal.
int refuse_to_ask(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

} // namespace

certificate_chain read_certificates(const fs::path& path) {
  auto text = read_pem(path);
  require_whole(path, text, "certificate");
  auto from = view_of(text);
  certificate_chain out;
  auto asked = false;
  while (auto* one =
           PEM_read_bio_X509(from.get(), nullptr, refuse_to_ask, &asked))
    out.emplace_back(one);
  auto why = ERR_GET_REASON(ERR_peek_last_error());
  if (why != PEM_R_NO_START_LINE)
    refuse(path, "is damaged: a certificate in it cannot be read; copy it "
                 "again");
  ERR_clear_error();
  if (out.empty())
    refuse(path, "holds no certificate" +
                   std::string{text.find("PRIVATE KEY") != text.npos
                                 ? ", but a key; is it the file of the key?"
                                 : "; name another file"});
  return out;
}

key_ptr read_key(const fs::path& path) {
  auto text = read_pem(path);
  require_whole(path, text, "key");
  auto from = view_of(text);
  auto asked = false;
  key_ptr out{
    PEM_read_bio_PrivateKey(from.get(), nullptr, refuse_to_ask, &asked)};
  auto has_key = text.find("PRIVATE KEY") != text.npos;
  OPENSSL_cleanse(text.data(), text.size());
  if (asked)
    refuse(path, "is encrypted with a passphrase, and nobody can type it here: "
                 "openssl pkey -in FILE -out FILE.plain takes it off");
  if (!out && !has_key)
    refuse(path, "holds no key; is it the file of the certificate?");
  if (!out)
    refuse(path, "is damaged: the key in it cannot be read; copy it again");
  return out;
}

} // namespace troupe::transport
