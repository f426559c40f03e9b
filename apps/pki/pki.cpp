#include "apps/pki/pki.hpp"

#include "apps/pki/pki_folder.hpp"
#include "config/commands/verb.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "messages/transport/tls/pem_files.hpp"

#include <arpa/inet.h>

#include <array>
#include <cstdio>
#include <filesystem>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;
using config::parameter;
using transport::certificate_facts;

using transport::seconds_of_day;
constexpr uint64_t most_days = 36'500;
constexpr size_t longest_name = 64; // Of a certificate.

const parameter authority_folder{"out", "DIR", "the folder of the CA",
                                 config::file_path()};
const parameter replace{"replace", "", "overwrite what is there",
                        config::any_text()};

const std::array<config::verb, 4> pki_verbs{{
  {"pki init",
   "init makes a certificate authority: DIR/ca.crt, which every node gets, and "
   "DIR/ca.key, which stays where it is made.",
   {},
   false,
   {authority_folder,
    {"days", "N", "how long it is valid", config::whole(1, most_days), "3650"},
    replace}},
  {"pki issue",
   "issue makes DIR/NAME with tls.crt, tls.key and ca.crt, which a node gets "
   "as --tls-dir.",
   {},
   false,
   {authority_folder,
    {"name", "NAME", "whose they are; also the name of the folder",
     config::any_text()},
    {"role", "ROLE[,ROLE]", "ps, worker, evaluator or operator",
     config::any_text()},
    {"host",
     "HOST[,HOST]",
     "names and addresses by which others dial it; needed for ps",
     config::any_text(),
     {},
     true},
    {"days", "N", "how long it is valid", config::whole(1, most_days), "365"},
    replace}},
  {"pki show",
   "show prints what the certificates in a file say: names, roles, dates, and "
   "the fingerprint for --tls-pin.",
   {{"file", "FILE", "a file with certificates, or a folder with tls.crt",
     config::file_path()}}},
  {"pki renew",
   "renew replaces the certificate of a node by one that is valid from now on "
   "and has the same key. Nodes that run take it up by themselves.",
   {{"path", "PATH",
     "the folder of a node (DIR/NAME), or DIR for all that end soon",
     config::file_path()}},
   false,
   {{"days",
     "N",
     "how long it is valid; not given: as long as before",
     config::whole(1, most_days),
     {},
     true},
    {"within", "N", "with DIR: those that end within so many days",
     config::whole(1, most_days), "30"}}},
}};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    auto comma = std::min(text.find(',', at), text.size());
    out.emplace_back(config::trim(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return out;
}

std::vector<std::string> parse_roles(const std::string& text) {
  std::vector<std::string> known{transport::member_roles.begin(),
                                 transport::member_roles.end()};
  std::vector<std::string> out;
  for (const auto& each : split(text)) {
    auto role = config::spelt(each, known);
    if (!role)
      throw usage_error("--role " + config::shown(text) + ": " +
                        config::not_among(each, known));
    if (!config::is_among(out, *role))
      out.push_back(*role);
  }
  return out;
}

bool is_address(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

std::vector<std::string> parse_hosts(const std::string& text) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_*";
  std::vector<std::string> out;
  for (auto each : split(text)) {
    if (each.starts_with('[') && each.ends_with(']'))
      each = each.substr(1, each.size() - 2);
    auto is_name =
      !each.empty() && each.find_first_not_of(letters) == each.npos;
    if (!is_name && !is_address(each))
      throw usage_error("--host " + config::shown(text) + ": " +
                        config::in_quotes(each) +
                        " must be a name or an address, without a port");
    out.push_back(each);
  }
  return out;
}

/// It is the name of a folder beside the files of the CA.
std::string parse_name(const std::string& name) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  if (name.find_first_not_of(letters) != name.npos || name.starts_with('.') ||
      name.starts_with("ca.") || name.size() > longest_name)
    throw usage_error("--name " + config::shown(name) +
                      ": must be at most 64 letters, digits, '-', '_' and "
                      "'.', and begin neither with '.' nor with 'ca.'");
  return name;
}

void say_row(const char* title, const std::string& text) {
  std::printf("%-12s %s\n", title, text.c_str());
}

std::string dates_of(const certificate_facts& facts) {
  auto now = std::time(nullptr);
  auto out = "from " + transport::date_text(facts.not_before) + " until " +
             transport::date_text(facts.not_after);
  if (now < facts.not_before)
    return out + ": not yet valid";
  if (now > facts.not_after)
    return out + ": expired";
  return out + ": " +
         config::count(
           static_cast<uint64_t>((facts.not_after - now) / seconds_of_day),
           "day") +
         " left";
}

void show(const fs::path& path) {
  std::error_code error;
  auto file = fs::is_directory(path, error) ? path / "tls.crt" : path;
  auto first = true;
  for (const auto& each : transport::read_certificates(file)) {
    auto facts = transport::facts_of(each.get());
    if (!first)
      std::printf("\n");
    first = false;
    say_row("name", facts.name + (facts.is_authority ? " (a CA)" : ""));
    if (!facts.is_authority) {
      say_row("roles", transport::roles_text(facts));
      say_row("hosts",
              facts.hosts.empty() ? "none" : config::join(facts.hosts, ", "));
    }
    say_row("issuer", facts.issuer);
    say_row("valid", dates_of(facts));
    say_row("fingerprint", facts.fingerprint);
  }
}

void init(const config::verb_call& call) {
  fs::path folder = call.flags.text("out");
  init_authority(folder, call.flags.whole("days"), call.flags.has("replace"));
  say_row("written", (folder / "ca.crt").string() + ", which every node gets");
  say_row("written",
          (folder / "ca.key").string() + ": whoever has it can let anybody in");
}

void issue(const config::verb_call& call) {
  node_request request;
  request.name = parse_name(call.flags.text("name"));
  request.roles = parse_roles(call.flags.text("role"));
  if (call.flags.has("host"))
    request.hosts = parse_hosts(call.flags.text("host"));
  else if (config::is_among(request.roles, "ps"))
    throw usage_error("pki issue needs --host HOST[,HOST] with the role ps: "
                      "others believe a server only under the name that they "
                      "dial");
  request.days = call.flags.whole("days");
  request.replace = call.flags.has("replace");
  fs::path folder = call.flags.text("out");
  auto facts = issue_node(folder, request);
  say_row("written", (folder / request.name).string() +
                       " with tls.crt, tls.key and ca.crt");
  say_row("valid", dates_of(facts));
}

void renew(const config::verb_call& call) {
  fs::path path = call.operands.front();
  std::optional<uint64_t> days;
  if (call.flags.has("days"))
    days = call.flags.whole("days");
  std::vector<fs::path> nodes{path};
  if (is_authority_folder(path))
    nodes = expiring_nodes(path, call.flags.whole("within"));
  for (const auto& node : nodes)
    say_row("renewed", (node / "tls.crt").string() + ", valid " +
                         dates_of(renew_node(node, days)));
  if (nodes.empty())
    say_row("renewed", "nothing: no certificate below " + path.string() +
                         " ends within " +
                         config::count(call.flags.whole("within"), "day"));
}

} // namespace

exit_status pki_verb(const std::vector<std::string>& arguments) {
  auto [verb, call, help] = config::choose_verb("pki", pki_verbs, arguments);
  if (verb == nullptr)
    std::fputs(help.c_str(), stdout);
  else if (verb->name == "pki init")
    init(call);
  else if (verb->name == "pki issue")
    issue(call);
  else if (verb->name == "pki show")
    show(call.operands.front());
  else
    renew(call);
  return exit_status::done;
}

} // namespace troupe::app
