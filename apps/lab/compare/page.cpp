#include "apps/lab/compare/page.hpp"

#include "apps/lab/compare/plots.hpp"
#include "config/text/version.hpp"
#include "models/storage/durable_file.hpp"

#include <openssl/evp.h>

namespace troupe::app {

namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (auto c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
                      : std::string{c};
  return out;
}

std::string base64(const std::string& text) {
  std::string out(4 * ((text.size() + 2) / 3) + 1, '\0');
  auto size =
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                    reinterpret_cast<const unsigned char*>(text.data()),
                    static_cast<int>(text.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

constexpr const char* style = R"(
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 980px;
       padding: 0 1rem; color: #222; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; }
img { width: 100%; height: auto; }
h1, h2, h3 { line-height: 1.2; }
)";

std::string head(const comparison& all) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n"
         "<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width\">\n"
         "<title>Troupe: policies compared</title>\n<style>" +
         std::string{style} +
         "</style>\n</head>\n<body>\n<h1>Policies compared</h1>\n"
         "<p>Runs under Troupe's virtual clock. All times are virtual seconds; "
         "what follows ± is the standard deviation over the seeds.</p>\n<pre>" +
         escaped(all.command) + "</pre>\n<pre>" + escaped(to_table(all)) +
         "</pre>\n<p>wait: share of the workers' time spent waiting for the "
         "parameter server. staleness: updates between reading the weights and "
         "applying the gradient, its mean and largest value. accepted: applied "
         "gradients among all decided on; least: of the worker that has the "
         "fewest.</p>\n";
}

/// A page that is being built.
class page {
public:
  page(const comparison& all, const std::filesystem::path& folder)
    : folder_(folder / "plots"), text_(head(all)) {
    std::filesystem::create_directories(folder_);
  }

  void add(const std::string& html) { text_ += html; }

  void add(const plot& picture, const std::string& title) {
    models::replace_file(folder_ / (picture.name + ".svg"), picture.svg);
    text_ += "<img alt=\"" + escaped(title) +
             "\" src=\"data:image/svg+xml;base64," + base64(picture.svg) +
             "\">\n";
  }

  void add(const std::optional<plot>& picture, const std::string& title,
           const std::string& note) {
    if (!picture)
      return;
    add("<h2>" + title + "</h2>\n<p>" + note + "</p>\n");
    add(*picture, title);
  }

  std::string close() {
    return text_ + "<p>Troupe " + std::string{config::version()} +
           "</p>\n</body>\n</html>\n";
  }

private:
  std::filesystem::path folder_;
  std::string text_;
};

} // namespace

void write_page(const comparison& all, const std::filesystem::path& folder) {
  page out{all, folder};
  out.add(target_plot(all), "Time to the target",
          "A point a run that reached it; the bar is their mean.");
  out.add(accuracy_plot(all), "Accuracy over virtual time", "A line a run.");
  out.add(staleness_plot(all), "Staleness", "Over all runs of a policy.");
  out.add("<h2>Who computes and who waits</h2>\n<p>The first run of each "
          "policy. White is waiting, or a message on its way.</p>\n");
  auto timelines = timeline_plots(all);
  for (size_t i = 0; i < timelines.size(); ++i) {
    const auto& label = all.contenders[i].label;
    out.add("<h3>" + escaped(label) + "</h3>\n");
    out.add(timelines[i], "timeline of " + label);
  }
  models::replace_file(folder / "report.html", out.close());
}

} // namespace troupe::app
