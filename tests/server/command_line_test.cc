#include "server/config/command_line.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/support/models.h"

namespace widelane {
namespace {

CommandLine Parse(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& variables = {}) {
  return ParseCommandLine(arguments, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

bool Mentions(const CommandLine& line, const std::string& text) {
  for (const std::string& problem : line.problems) {
    if (problem.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(CommandLineTest, ReadsFlags) {
  const CommandLine line = Parse({"--model",
                                  "a=/x/a",
                                  "--model",
                                  "b=/x/b",
                                  "--devices",
                                  "0,2",
                                  "--grpc-address",
                                  "[::1]:9",
                                  "--http-address",
                                  "",
                                  "--slab-rows=77",
                                  "--model-versions",
                                  "all",
                                  "--reflection",
                                  "false",
                                  "--drain-delay-ms",
                                  "5",
                                  "--route",
                                  "all_gpus",
                                  "--kernel",
                                  "cusparse",
                                  "--lane-bytes",
                                  "65536",
                                  "--gpu-memory-bytes",
                                  "12345678",
                                  "--spin-microseconds",
                                  "7"});
  ASSERT_EQ(line.action, CommandLine::Action::kRun) << (line.problems.empty() ? "" : line.problems[0]);
  ASSERT_EQ(line.config.models.models.size(), 2u);
  EXPECT_EQ(line.config.models.models[1].name, "b");
  EXPECT_EQ(line.config.models.models[1].file, "/x/b");
  EXPECT_TRUE(line.config.models.all_versions);
  EXPECT_EQ(line.config.engine.devices.gpus, (std::vector<int>{0, 2}));
  EXPECT_EQ(line.config.engine.slab.rows, 77u);
  EXPECT_EQ(line.config.front.grpc_address, "[::1]:9");
  EXPECT_EQ(line.config.front.http_address, "");
  EXPECT_FALSE(line.config.front.reflection);
  EXPECT_EQ(line.config.drain.delay.count(), 5);
  EXPECT_EQ(line.config.engine.route, Route::kAllGpus);
  EXPECT_EQ(line.config.engine.kernel, SumKernel::kCusparse);
  EXPECT_EQ(line.config.engine.lane_bytes, 65536u);
  EXPECT_EQ(line.config.engine.gpu_memory, 12345678u);
  EXPECT_EQ(line.config.engine.spin_microseconds, 7u);
}

TEST(CommandLineTest, FlagsWinOverVariablesAndVariablesOverTheFile) {
  const test::TempDir folder;
  const std::string file = folder.Write(
      "server.toml",
      "model-repository = \"/from/file\"\nslabs = 3\nlanes = 3\ncpu-threads = 3\nmodel = [\"a=/a\", \"b=/b\"]\n");
  const CommandLine line =
      Parse({"--config", file, "--slabs", "1"}, {{"WIDELANE_SLABS", "2"}, {"WIDELANE_LANES", "2"}});
  ASSERT_EQ(line.action, CommandLine::Action::kRun) << (line.problems.empty() ? "" : line.problems[0]);
  EXPECT_EQ(line.config.engine.slabs, 1u);
  EXPECT_EQ(line.config.engine.lanes, 2u);
  EXPECT_EQ(line.config.engine.cpu_threads, 3u);
  EXPECT_EQ(line.config.models.repository, "/from/file");
  EXPECT_EQ(line.config.models.models.size(), 2u);
}

TEST(CommandLineTest, TellsAllProblemsAtOnce) {
  const test::TempDir folder;
  const std::string file = folder.Write("server.toml", "slabs = \"many\"\nslabz = 3\n");
  const CommandLine line =
      Parse({"--config", file, "--wrong", "--grpc-address", "nowhere", "--devices", "tpu"}, {{"WIDELANE_LANES", "-1"}});
  EXPECT_EQ(line.action, CommandLine::Action::kRefuse);
  EXPECT_TRUE(Mentions(line, "'--wrong'"));
  EXPECT_TRUE(Mentions(line, "--grpc-address 'nowhere'"));
  EXPECT_TRUE(Mentions(line, "--devices"));
  EXPECT_TRUE(Mentions(line, "WIDELANE_LANES '-1'"));
  EXPECT_TRUE(Mentions(line, "server.toml: slabs 'many'"));
  EXPECT_TRUE(Mentions(line, "unknown key 'slabz'"));
}

TEST(CommandLineTest, RefusesSettingsThatDoNotGoTogether) {
  EXPECT_TRUE(Mentions(Parse({}), "nothing to serve"));
  EXPECT_TRUE(Mentions(Parse({"--model", "a=a", "--max-queued-bytes", "2000"}), "--max-message-bytes"));
  EXPECT_TRUE(Mentions(Parse({"--model", "a=a", "--slabs", "1", "--slabs", "2"}), "given 2 times"));
  EXPECT_TRUE(Mentions(Parse({"--model", "a=a", "--config", "/x", "--config", "/y"}), "--config: is given 2 times"));
  EXPECT_TRUE(Mentions(Parse({"--model", "a=a", "--slabs", "1025"}), "1 to 1024"));
  EXPECT_TRUE(Mentions(Parse({"--model", "a=a", "--grpc-memory-bytes", "20000000"}), "--max-message-bytes"));
  EXPECT_TRUE(Mentions(Parse({"--config", "/nowhere/x.toml"}), "/nowhere/x.toml cannot be read"));
  EXPECT_TRUE(Mentions(Parse({"--model", ".a=a"}), "name"));
  EXPECT_TRUE(Mentions(Parse({"--model", "a"}), "NAME=FILE"));
  EXPECT_TRUE(
      Mentions(Parse({"--model", "a=a", "--route", "cpu"}), "one of inline, pool, mapped, copied, all_gpus, auto"));
  EXPECT_TRUE(Mentions(Parse({"--model", "a=a", "--kernel", "fast"}), "one of exact, cusparse"));
  EXPECT_TRUE(
      Mentions(Parse({"--model", "a=a", "--spin-microseconds", "100001"}), "auto or a whole number from 0 to 100000"));
}

TEST(CommandLineTest, ReadsOptionsOfBatchingStreamsAndConnections) {
  const CommandLine line =
      Parse({"--model=a=a", "--max-queue-delay-us=250", "--max-batch-rows=1000", "--max-batch-entries=50000",
             "--max-queued-rows=5000000", "--stream-requests=16", "--stream-stall-ms=1500", "--keepalive-ms=30000",
             "--keepalive-timeout-ms=5000", "--min-ping-interval-ms=1000", "--max-connection-age-ms=0",
             "--max-connection-age-grace-ms=7000", "--slab-context-sums=4096",
             "--grpc-address=127.0.0.1:0,unix:/run/widelane.sock", "--unix-mode=600"});
  ASSERT_EQ(line.action, CommandLine::Action::kRun) << (line.problems.empty() ? "" : line.problems[0]);
  const ServerConfig& config = line.config;
  EXPECT_EQ(config.batching.max_delay.count(), 250);
  EXPECT_EQ(config.batching.max_rows, 1000u);
  EXPECT_EQ(config.batching.max_entries, 50000u);
  EXPECT_EQ(config.limits.max_queued_rows, 5000000u);
  EXPECT_EQ(config.front.stream_requests, 16u);
  EXPECT_EQ(config.front.stream_stall.count(), 1500);
  EXPECT_EQ(config.front.keepalive.count(), 30000);
  EXPECT_EQ(config.front.keepalive_timeout.count(), 5000);
  EXPECT_EQ(config.front.min_ping_interval.count(), 1000);
  EXPECT_EQ(config.front.max_connection_age.count(), 0);
  EXPECT_EQ(config.front.max_connection_age_grace.count(), 7000);
  EXPECT_EQ(config.engine.slab.context_sums, 4096u);
  EXPECT_EQ(config.front.grpc_address, "127.0.0.1:0,unix:/run/widelane.sock");
  EXPECT_EQ(config.front.unix_mode, 0600u);
}

TEST(CommandLineTest, MetricsCanBeLeftOut) {
  const test::TempDir folder;
  const std::string file = folder.Write("server.toml", "metrics = false\n");
  EXPECT_TRUE(Parse({"--model=a=a"}).config.metrics.on);
  EXPECT_FALSE(Parse({"--model=a=a", "--metrics=false"}).config.metrics.on);
  EXPECT_FALSE(Parse({"--model=a=a"}, {{"WIDELANE_METRICS", "false"}}).config.metrics.on);
  EXPECT_FALSE(Parse({"--model=a=a", "--config", file}).config.metrics.on);
  const CommandLine both = Parse({"--model=a=a", "--metrics=false", "--triton-metrics=true"});
  EXPECT_EQ(both.action, CommandLine::Action::kRefuse);
  EXPECT_TRUE(Mentions(both, "--triton-metrics true needs --metrics true"));
}

TEST(CommandLineTest, RefusesAddressesAndModesThatAreNone) {
  for (const char* address : {"", ",", "127.0.0.1:1,", "unix:", "unix:relative", "nowhere"}) {
    EXPECT_TRUE(Mentions(Parse({"--model=a=a", "--grpc-address", address}), "unix:/PATH")) << address;
  }
  const std::string long_path = "unix:/" + std::string(107, 'x');
  EXPECT_TRUE(Mentions(Parse({"--model=a=a", "--grpc-address=" + long_path}), "107"));
  for (const char* mode : {"", "8", "1777", "rw"}) {
    EXPECT_TRUE(Mentions(Parse({"--model=a=a", "--unix-mode", mode}), "octal")) << mode;
  }
  EXPECT_TRUE(Mentions(Parse({"--model=a=a", "--stream-stall-ms=0"}), "from 1 to"));
  EXPECT_TRUE(Mentions(Parse({"--model=a=a", "--max-queued-rows=100"}), "--max-request-rows"));
  EXPECT_TRUE(Mentions(Parse({"--model=a=a", "--grpc-address=unix:/x,[::1]:9", "--http-address=[::1]:9"}), "both"));
}

TEST(CommandLineTest, ReadsTheOptionsOfTls) {
  const CommandLine line = Parse({"--model=a=a", "--tls-certificate=/c", "--grpc-address=[::]:1,unix:/x"},
                                 {{"WIDELANE_TLS_PRIVATE_KEY", "/k"}, {"WIDELANE_TLS_CLIENT_CA", "/a"}});
  ASSERT_EQ(line.action, CommandLine::Action::kRun) << (line.problems.empty() ? "" : line.problems[0]);
  EXPECT_EQ(line.config.tls.certificate, "/c");
  EXPECT_EQ(line.config.tls.private_key, "/k");
  EXPECT_EQ(line.config.tls.client_ca, "/a");
  EXPECT_FALSE(Parse({"--model=a=a"}).config.tls.enabled());
}

TEST(CommandLineTest, RefusesHalfOfTls) {
  EXPECT_TRUE(Mentions(Parse({"--model=a=a", "--tls-certificate=/c"}), "needs --tls-private-key"));
  EXPECT_TRUE(Mentions(Parse({"--model=a=a", "--tls-private-key=/k"}), "needs --tls-certificate"));
  EXPECT_TRUE(Mentions(Parse({"--model=a=a", "--tls-client-ca=/a"}), "--tls-client-ca needs --tls-certificate"));
  const std::vector<std::string> both = {"--model=a=a", "--tls-certificate=/c", "--tls-private-key=/k"};
  const auto at = [&both](const std::string& address) {
    std::vector<std::string> arguments = both;
    arguments.push_back("--grpc-address=" + address);
    return Parse(arguments);
  };
  EXPECT_TRUE(Mentions(at("localhost:1"), "--grpc-address localhost:1: with --tls-certificate"));
  EXPECT_TRUE(Mentions(at("unix:/x"), "has no HOST:PORT"));
  EXPECT_EQ(at("127.0.0.1:1").action, CommandLine::Action::kRun);
}

TEST(CommandLineTest, HelpShowsEveryOptionWithItsDefault) {
  const CommandLine line = Parse({"--help"});
  ASSERT_EQ(line.action, CommandLine::Action::kPrint);
  for (const OptionFacts& option : ListOptions()) {
    EXPECT_NE(line.text.find("--" + option.name), std::string::npos) << option.name;
    EXPECT_NE(line.text.find(option.variable), std::string::npos) << option.variable;
    if (option.default_value.empty()) continue;
    EXPECT_NE(line.text.find("[" + option.default_value + "]"), std::string::npos) << option.name;
  }
}

TEST(CommandLineTest, PrintsTheVersion) {
  const CommandLine line = Parse({"--version"});
  EXPECT_EQ(line.action, CommandLine::Action::kPrint);
  EXPECT_EQ(line.text.rfind("widelane-server ", 0), 0u);
}

TEST(CommandLineTest, EveryDefaultIsAccepted) {
  std::vector<std::string> arguments = {"--model", "a=a"};
  for (const OptionFacts& option : ListOptions()) {
    if (!option.default_value.empty()) arguments.push_back("--" + option.name + "=" + option.default_value);
  }
  const CommandLine line = Parse(arguments);
  EXPECT_EQ(line.action, CommandLine::Action::kRun) << (line.problems.empty() ? "" : line.problems[0]);
}

// The README's table has one row for each option: | `--name` | default | what it does |
TEST(CommandLineTest, TheReadmeHasEveryOptionWithItsDefault) {
  std::ifstream in(WIDELANE_SERVER_README);
  std::stringstream text;
  text << in.rdbuf();
  for (const OptionFacts& option : ListOptions()) {
    const std::string shown = option.default_value.empty() ? "" : "`" + option.default_value + "`";
    EXPECT_NE(text.str().find("| `--" + option.name + "` | " + shown + " | " + option.help + " |"), std::string::npos)
        << "no row: | `--" << option.name << "` | " << shown << " | " << option.help << " |";
  }
}

}  // namespace
}  // namespace widelane
