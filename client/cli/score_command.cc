#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/output_format.h"
#include "client/cli/progress.h"
#include "client/cli/stage_table.h"
#include "client/cli/svmlight_reader.h"

namespace widelane::cli {
namespace {

using client::ScoreReply;

// A call ends here whatever its rows, so that rows of any length stay within usual message limits.
constexpr size_t kEntriesPerCall = 1 << 20;

const std::map<std::string, client::Priority> kPriorities = {
    {"high", client::Priority::kHigh}, {"normal", client::Priority::kNormal}, {"low", client::Priority::kLow}};

struct Options {
  ServerOptions server;
  std::string model;
  std::string version;
  int index_base = 1;
  std::string outputs = "scores";
  size_t rows_per_call = 8192;
  size_t calls = 4;
  client::Priority priority = client::Priority::kDefault;
  std::string output_file;
  bool stage_times = false;
  bool quiet = false;
  std::string file;
};

// Reads, sends and prints; calls run at once, lines come out in the order of the rows.
class Scorer {
 public:
  Scorer(const Options& options, OutputFormat format, client::Client& client, std::istream& in, std::ostream& out)
      : options_(options),
        format_(std::move(format)),
        client_(client),
        reader_(in, options.file == "-" ? "stdin" : options.file, options.index_base),
        out_(out) {}

  absl::Status Run(Progress& progress) {
    while (true) {
      rows_.Clear();
      const absl::StatusOr<bool> more = reader_.Read(rows_, options_.rows_per_call, kEntriesPerCall);
      if (rows_.rows() > 0) {
        if (absl::Status status = Drain(options_.calls - 1, progress); !status.ok()) return status;
        Send();
      }
      // What was read before a bad line is answered before it is complained about.
      if (!more.ok() || !*more) {
        absl::Status drained = Drain(0, progress);
        return drained.ok() ? more.status() : drained;
      }
    }
  }

  uint64_t rows() const { return rows_done_; }
  uint64_t ignored_features() const { return ignored_features_; }
  const StageTable& stages() const { return stages_; }

 private:
  struct Call {
    uint64_t rows;
    std::future<absl::StatusOr<ScoreReply>> reply;
  };

  void Send() {
    client::ScoreRequest request;
    request.model = options_.model;
    request.version = options_.version;
    request.rows = rows_;
    request.outputs = format_.outputs;
    request.top_k = format_.top_k;
    request.stage_times = options_.stage_times;
    request.priority = options_.priority;
    auto promise = std::make_shared<std::promise<absl::StatusOr<ScoreReply>>>();
    calls_.push_back({rows_.rows(), promise->get_future()});
    client_.ScoreAsync(request, [promise](absl::StatusOr<ScoreReply> reply) { promise->set_value(std::move(reply)); });
  }

  // Prints the oldest calls until at most `most` are left.
  absl::Status Drain(size_t most, Progress& progress) {
    for (; calls_.size() > most; calls_.pop_front()) {
      const absl::StatusOr<ScoreReply> reply = calls_.front().reply.get();
      if (!reply.ok()) return FailedCall(reply.status());
      lines_.clear();
      if (absl::Status status = AppendLines(format_, *reply, calls_.front().rows, lines_); !status.ok()) return status;
      if (!out_.write(lines_.data(), static_cast<std::streamsize>(lines_.size()))) {
        return absl::UnknownError("cannot write the scores");
      }
      rows_done_ += reply->rows;
      ignored_features_ += reply->ignored_features;
      if (reply->stage_times.has_value()) stages_.Add(*reply->stage_times);
      progress.Update(reader_.bytes_read(), rows_done_);
    }
    return absl::OkStatus();
  }

  // The server counts rows from the first of a call.
  absl::Status FailedCall(const absl::Status& status) const {
    if (rows_done_ == 0) return status;
    return absl::Status(status.code(), absl::StrCat(status.message(), " (in the call after row ", rows_done_, ")"));
  }

  const Options& options_;
  const OutputFormat format_;
  client::Client& client_;
  SvmlightReader reader_;
  std::ostream& out_;
  client::Rows rows_;
  std::deque<Call> calls_;
  std::string lines_;
  uint64_t rows_done_ = 0;
  uint64_t ignored_features_ = 0;
  StageTable stages_;
};

void PrintSummary(const Scorer& scorer, double seconds) {
  std::cerr << absl::StrFormat("%d rows in %.3f s, %.0f rows/s\n", scorer.rows(), seconds,
                               static_cast<double>(scorer.rows()) / seconds);
  if (scorer.ignored_features() > 0) {
    std::cerr << scorer.ignored_features() << " entries of features the model does not have were ignored\n";
  }
  std::cerr << scorer.stages().Format();
}

absl::Status ScoreStream(const Options& options, client::Client& client, std::istream& in, uint64_t bytes,
                         std::ostream& out) {
  absl::StatusOr<OutputFormat> format = ParseOutputFormat(options.outputs);
  if (!format.ok()) return format.status();
  const auto start = std::chrono::steady_clock::now();
  Scorer scorer(options, *std::move(format), client, in, out);
  absl::Status status;
  {
    Progress progress(bytes, !options.quiet);
    status = scorer.Run(progress);
  }
  out.flush();
  if (!status.ok()) return status;
  if (!out) return absl::UnknownError("cannot write the scores");
  if (!options.quiet) {
    PrintSummary(scorer, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return absl::OkStatus();
}

// Opened last, since that empties it.
absl::Status ScoreTo(const Options& options, client::Client& client, std::istream& in, uint64_t bytes) {
  if (options.output_file.empty()) return ScoreStream(options, client, in, bytes, std::cout);
  std::error_code none_yet;
  if (std::filesystem::equivalent(options.file == "-" ? "/dev/stdin" : options.file, options.output_file, none_yet)) {
    return absl::InvalidArgumentError(absl::StrCat("the scores would overwrite the rows in ", options.output_file));
  }
  std::ofstream out(options.output_file, std::ios::binary | std::ios::trunc);
  if (!out) return absl::PermissionDeniedError(absl::StrCat("cannot write ", options.output_file));
  return ScoreStream(options, client, in, bytes, out);
}

absl::Status Score(const Options& options) {
  std::ios::sync_with_stdio(false);
  const auto client = Connect(options.server);
  if (!client.ok()) return client.status();
  if (options.file == "-") return ScoreTo(options, **client, std::cin, 0);
  std::error_code problem;
  if (std::filesystem::is_directory(options.file, problem)) {
    return absl::InvalidArgumentError(absl::StrCat(options.file, " is a directory"));
  }
  std::ifstream in(options.file, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot open ", options.file));
  const uint64_t bytes = std::filesystem::file_size(options.file, problem);
  return ScoreTo(options, **client, in, problem ? 0 : bytes);
}

std::string CheckOutputs(const std::string& text) {
  const auto format = ParseOutputFormat(text);
  return format.ok() ? "" : std::string(format.status().message());
}

}  // namespace

void AddScoreCommand(CLI::App& app, Run& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("score", "Scores rows in svmlight form, one line out for each row");
  AddServerOptions(*command, options->server);
  command->add_option("-m,--model", options->model, "Name of the model")->required();
  command->add_option("--version", options->version, "Version of the model; else the newest");
  command->add_option("--index-base", options->index_base, "What the file calls the first feature: 1 or 0")
      ->check(CLI::IsMember({0, 1}))
      ->capture_default_str();
  command->add_option("--output", options->outputs, "Any of scores, raw, labels, probabilities, top:K, with commas")
      ->check(CLI::Validator(CheckOutputs, ""))
      ->capture_default_str();
  command->add_option("--rows-per-call", options->rows_per_call, "Most rows of one call")
      ->check(CLI::Range(size_t{1}, size_t{1} << 22))
      ->capture_default_str();
  command->add_option("--calls", options->calls, "Calls in flight at once")
      ->check(CLI::Range(size_t{1}, size_t{256}))
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--priority", [options](const std::string& name) { options->priority = kPriorities.at(name); },
          "high, normal or low: what goes first of all that waits in the server; else normal")
      ->check(CLI::IsMember(kPriorities));
  command->add_option("-o,--output-file", options->output_file, "File to write instead of stdout");
  command->add_flag("--stage-times", options->stage_times, "Show on stderr where the server's time went");
  command->add_flag("-q,--quiet", options->quiet, "No progress and no summary on stderr");
  command->add_option("FILE", options->file, "Rows, [LABEL] INDEX:VALUE ...; - for stdin")->required();
  command->callback([options, &run] { run = [options] { return Score(*options); }; });
}

}  // namespace widelane::cli
