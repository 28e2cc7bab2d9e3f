#include "server/config/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/config/options.h"
#include "server/observe/build_info.h"

namespace widelane {

namespace {

constexpr char kConfigOption[] = "config";

std::string VariableOf(const std::string& option) {
  return absl::StrCat("WIDELANE_", absl::AsciiStrToUpper(absl::StrReplaceAll(option, {{"-", "_"}})));
}

// Values given for options in one place, and how that place is named in messages.
struct Given {
  std::map<std::string, std::vector<std::string>> values;
  std::function<std::string(const std::string& option)> source;
};

std::string HelpOf(const Option& option) {
  const std::string shown = option.show(ServerConfig());
  return absl::StrCat(option.help, shown.empty() ? "" : absl::StrCat(" [", shown, "]"), " (", VariableOf(option.name),
                      ")");
}

// CLI11 collects texts only; they are read by our own table, so that every problem is found and told in the same words.
class Parser {
 public:
  Parser() : app_("widelane-server scores sparse linear models over gRPC", "widelane-server") {
    app_.allow_extras();
    app_.set_version_flag("--version", absl::StrCat("widelane-server ", kVersion, " (CUDA ", kBuiltWithCuda, ")"));
    AddOption(kConfigOption, "TOML file with options of these names (WIDELANE_CONFIG)");
    for (const Option& option : Options()) AddOption(option.name, HelpOf(option));
    app_.footer("Options on the command line win over WIDELANE_* variables, and these over the file.");
  }

  // The file name of --config among them.
  CommandLine Parse(const std::vector<std::string>& arguments, Given& given) {
    CommandLine result;
    try {
      app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      return Print(app_.help());
    } catch (const CLI::CallForVersion& version) {
      return Print(absl::StrCat(version.what(), "\n"));
    } catch (const CLI::ParseError& error) {
      result.problems.emplace_back(error.what());
    }
    for (const std::string& extra : app_.remaining()) {
      result.problems.push_back(absl::StrCat("unknown argument '", extra, "'"));
    }
    for (auto& [name, values] : values_) {
      if (app_.count("--" + name) > 0) given.values[name] = values;
    }
    if (const size_t files = values_[kConfigOption].size(); files > 1) {
      result.problems.push_back(absl::StrCat("--", kConfigOption, ": is given ", files, " times"));
    }
    given.source = [](const std::string& option) { return absl::StrCat("--", option); };
    return result;
  }

 private:
  void AddOption(const std::string& name, const std::string& help) {
    app_.add_option("--" + name, values_[name], help)->option_text("VALUE")->allow_extra_args(false);
  }
  static CommandLine Print(std::string text) {
    CommandLine result;
    result.action = CommandLine::Action::kPrint;
    result.text = std::move(text);
    return result;
  }

  CLI::App app_;
  std::map<std::string, std::vector<std::string>> values_;
};

Given ReadEnvironment(const Environment& environment) {
  Given given;
  given.source = VariableOf;
  for (const Option& option : Options()) {
    const char* value = environment(VariableOf(option.name).c_str());
    if (value == nullptr) continue;
    if (option.repeatable) {
      given.values[option.name] = absl::StrSplit(value, ',', absl::SkipEmpty());
    } else {
      given.values[option.name] = {value};
    }
  }
  return given;
}

Given ReadFile(const std::string& path, std::vector<std::string>& problems) {
  Given given;
  given.source = [path](const std::string& option) { return absl::StrCat(path, ": ", option); };
  std::ifstream in(path);
  if (!in) {
    problems.push_back(absl::StrCat("the config file ", path, " cannot be read"));
    return given;
  }
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(in);
  } catch (const std::exception& error) {
    problems.push_back(absl::StrCat(path, ": ", error.what()));
  }
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // how the parser marks sections; their items follow
    const std::string name = item.fullname();
    const bool known =
        std::any_of(Options().begin(), Options().end(), [&](const Option& option) { return option.name == name; });
    if (!known) problems.push_back(absl::StrCat(path, ": unknown key '", name, "'"));
    std::vector<std::string>& values = given.values[name];
    values.insert(values.end(), item.inputs.begin(), item.inputs.end());
    if (item.inputs.empty()) values.emplace_back();
  }
  return given;
}

void Apply(const Option& option, const Given& given, ServerConfig& config, std::vector<std::string>& problems) {
  const std::vector<std::string>& values = given.values.at(option.name);
  if (!option.repeatable && values.size() != 1) {
    problems.push_back(absl::StrCat(given.source(option.name), ": is given ", values.size(), " times"));
    return;
  }
  for (const std::string& value : values) {
    const std::string problem = option.read(config, value);
    if (!problem.empty()) problems.push_back(absl::StrCat(given.source(option.name), " '", value, "': ", problem));
  }
}

std::string ConfigFile(const Given& command_line, const Environment& environment) {
  if (const auto found = command_line.values.find(kConfigOption); found != command_line.values.end())
    return found->second.back();
  const char* value = environment(VariableOf(kConfigOption).c_str());
  return value == nullptr ? "" : value;
}

}  // namespace

CommandLine ParseCommandLine(const std::vector<std::string>& arguments, const Environment& environment) {
  std::vector<Given> places(1);
  CommandLine result = Parser().Parse(arguments, places[0]);
  if (result.action == CommandLine::Action::kPrint) return result;
  places.push_back(ReadEnvironment(environment));
  if (const std::string file = ConfigFile(places[0], environment); !file.empty()) {
    places.push_back(ReadFile(file, result.problems));
  }
  for (const Option& option : Options()) {
    const auto place = std::find_if(places.begin(), places.end(),
                                    [&](const Given& given) { return given.values.count(option.name) > 0; });
    if (place != places.end()) Apply(option, *place, result.config, result.problems);
  }
  if (result.problems.empty()) result.problems = CheckTogether(result.config);
  if (!result.problems.empty()) result.action = CommandLine::Action::kRefuse;
  return result;
}

std::vector<OptionFacts> ListOptions() {
  std::vector<OptionFacts> facts;
  for (const Option& option : Options()) {
    facts.push_back({option.name, VariableOf(option.name), option.show(ServerConfig()), option.help});
  }
  return facts;
}

}  // namespace widelane
