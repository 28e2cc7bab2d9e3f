// Makes the demo's data set out of what every Debian or Ubuntu machine has: the list of all packages.
//
//   apt-cache dumpavail | widelane-demo-packages DIRECTORY
//
// One row a package. Its features, each of value 1, are the words of its short description and the names of the
// packages it depends on. Two tasks share the rows: `library` (is it in section libs or libdevel?) and `section` (which
// of them all?). Every fifth package in order of name is held out. Written into DIRECTORY:
//
//   library.train section.train   svmlight text, 1-based features in order, each once
//   library.test  section.test    the same of what is held out
//   library.classes section.classes  lines `NUMBER NAME`, what the numeric labels stand for
//   features                      line i names feature i
//   held-out                      line i names the package of row i of the .test files
//
// The same list gives the same bytes. Only a package's first version counts.

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

struct Package {
  std::string section;
  std::string description;
  std::string depends;
};
using Packages = std::map<std::string, Package>;  // by name, in order

constexpr size_t kHeldOutEvery = 5;

// "contrib/net" -> "net"
std::string WithoutComponent(const std::string& section) {
  const size_t slash = section.rfind('/');
  return slash == std::string::npos ? section : section.substr(slash + 1);
}

// If `line` is the field `name`, its value.
bool Field(std::string_view line, std::string_view name, std::string* value) {
  if (line.size() <= name.size() || line.substr(0, name.size()) != name || line[name.size()] != ':') return false;
  line.remove_prefix(name.size() + 1);
  const size_t start = line.find_first_not_of(" \t");
  value->assign(start == std::string_view::npos ? std::string_view() : line.substr(start));
  return true;
}

Packages ReadPackages(std::istream& in) {
  Packages packages;
  std::string name;
  Package package;
  const auto finish = [&] {
    if (!name.empty() && !package.section.empty()) {
      package.section = WithoutComponent(package.section);
      packages.emplace(std::move(name), std::move(package));
    }
    name.clear();
    package = Package();
  };
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) {
      finish();
    } else if (!Field(line, "Package", &name) && !Field(line, "Section", &package.section) &&
               !Field(line, "Depends", &package.depends)) {
      Field(line, "Description", &package.description) || Field(line, "Description-en", &package.description);
    }
  }
  finish();
  return packages;
}

// Runs of letters and digits, in lower case. Bytes beyond ASCII count as letters.
void AddWords(std::string_view text, std::set<std::string>* features) {
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const unsigned char c = i < text.size() ? static_cast<unsigned char>(text[i]) : ' ';
    if (c >= 0x80 || std::isalnum(c) != 0) {
      word += static_cast<char>(std::tolower(c));
    } else if (!word.empty()) {
      features->insert("word:" + word);
      word.clear();
    }
  }
}

// "a (>= 1), b:any | c" -> a, b, c
void AddDependencies(std::string_view depends, std::set<std::string>* features) {
  while (!depends.empty()) {
    const std::string_view one = depends.substr(0, depends.find_first_of(",|"));
    depends.remove_prefix(std::min(depends.size(), one.size() + 1));
    const size_t start = one.find_first_not_of(' ');
    if (start == std::string_view::npos) continue;
    const std::string_view name = one.substr(start, one.find_first_of(" (:[", start) - start);
    if (!name.empty()) features->insert("needs:" + std::string(name));
  }
}

std::set<std::string> FeaturesOf(const Package& package) {
  std::set<std::string> features;
  AddWords(package.description, &features);
  AddDependencies(package.depends, &features);
  return features;
}

std::map<std::string, int> NumberSections(const Packages& packages) {
  std::map<std::string, int> sections;
  for (const auto& [name, package] : packages) sections.emplace(package.section, 0);
  int number = 0;
  for (auto& [section, its_number] : sections) its_number = ++number;
  return sections;
}

class DataSet {
 public:
  DataSet(const std::string& directory, std::map<std::string, int> sections)
      : directory_(directory), sections_(std::move(sections)) {}

  // Numbers come in order of first use, so the features a model is trained on come before those it never sees.
  void AddRows(const Packages& packages, bool held_out) {
    const std::string part = held_out ? ".test" : ".train";
    std::ofstream library = Open("library" + part);
    std::ofstream section = Open("section" + part);
    size_t position = 0;
    for (const auto& [name, package] : packages) {
      if ((++position % kHeldOutEvery == 0) != held_out) continue;
      const std::string row = Row(package);
      const bool is_library = package.section == "libs" || package.section == "libdevel";
      library << (is_library ? 1 : -1) << row << '\n';
      section << sections_.at(package.section) << row << '\n';
      if (held_out) held_out_.push_back(name);
      ++rows_;
    }
    Close(library);
    Close(section);
  }

  void WriteNames() {
    std::ofstream library = Open("library.classes");
    library << "-1 other\n1 library\n";
    Close(library);
    std::ofstream section = Open("section.classes");
    for (const auto& [name, number] : sections_) section << number << ' ' << name << '\n';
    Close(section);
    WriteLines("features", names_);
    WriteLines("held-out", held_out_);
  }

  bool Report() const {
    if (failed_) {
      std::fprintf(stderr, "widelane-demo-packages: cannot write into %s\n", directory_.c_str());
      return false;
    }
    std::printf("%zu packages, %zu of them held out; %zu features, %.1f a package; %zu sections\n", rows_,
                held_out_.size(), names_.size(), static_cast<double>(entries_) / static_cast<double>(rows_),
                sections_.size());
    return true;
  }

 private:
  std::string Row(const Package& package) {
    std::vector<uint32_t> features;
    for (const std::string& feature : FeaturesOf(package)) {
      const auto [at, is_new] = numbers_.emplace(feature, static_cast<uint32_t>(numbers_.size()) + 1);
      if (is_new) names_.push_back(feature);
      features.push_back(at->second);
    }
    std::sort(features.begin(), features.end());
    entries_ += features.size();
    std::string row;
    for (const uint32_t feature : features) row += ' ' + std::to_string(feature) + ":1";
    return row;
  }

  std::ofstream Open(const std::string& file) const { return std::ofstream(directory_ + "/" + file); }
  void Close(std::ofstream& file) {
    file.close();
    if (!file) failed_ = true;
  }
  void WriteLines(const std::string& name, const std::vector<std::string>& lines) {
    std::ofstream file = Open(name);
    for (const std::string& line : lines) file << line << '\n';
    Close(file);
  }

  const std::string directory_;
  const std::map<std::string, int> sections_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<std::string> names_;
  std::vector<std::string> held_out_;
  size_t rows_ = 0;
  size_t entries_ = 0;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: apt-cache dumpavail | %s DIRECTORY\n", argv[0]);
    return 2;
  }
  std::ios::sync_with_stdio(false);
  const Packages packages = ReadPackages(std::cin);
  if (packages.size() < kHeldOutEvery) {
    std::fprintf(stderr, "widelane-demo-packages: %zu packages on standard input; too few\n", packages.size());
    return 1;
  }
  DataSet data(argv[1], NumberSections(packages));
  data.AddRows(packages, /*held_out=*/false);
  data.AddRows(packages, /*held_out=*/true);
  data.WriteNames();
  return data.Report() ? 0 : 1;
}
