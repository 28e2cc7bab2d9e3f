// Compares what the server answered with what liblinear prints for the same rows, number by number.
//
//   widelane-demo-compare TEST CLASSES NAMES SCORES PREDICTIONS MIN_ACCURACY MAX_DIFFERENCE
//
//   TEST         svmlight rows; only the labels are read
//   CLASSES      lines `NUMBER NAME`: what the numeric labels stand for
//   NAMES        line i names row i
//   SCORES       from `widelane score --output labels,probabilities`: a label and its model's probabilities a line
//   PREDICTIONS  from `liblinear-predict -b 1`: first `labels ...`, then the same a line
//
// Prints a few rows for people and, last, `rows=N accuracy=A max_difference=D` for the calling script. Fails if the
// files do not fit together or a label differs though its probability does, too.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr size_t kShownRows = 8;
constexpr double kTie =
    1e-6;  // labels may differ only where their probabilities do not, as far as liblinear prints them

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "widelane-demo-compare: %s\n", why.c_str());
  std::exit(1);
}

std::vector<std::string> ReadLines(const std::string& path) {
  std::ifstream file(path);
  if (!file) Fail("cannot read " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> Words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

struct Answer {
  std::string label;
  std::vector<double> probabilities;
};

Answer ParseAnswer(const std::string& line, size_t classes, const std::string& where) {
  const std::vector<std::string> words = Words(line);
  if (words.size() != classes + 1) {
    Fail(where + ": expected a label and " + std::to_string(classes) + " probabilities, found \"" + line.substr(0, 80) +
         "\"");
  }
  Answer answer{words[0], {}};
  for (size_t i = 1; i < words.size(); ++i) {
    char* end = nullptr;
    answer.probabilities.push_back(std::strtod(words[i].c_str(), &end));
    if (end == words[i].c_str() || *end != '\0') Fail(where + ": \"" + words[i] + "\" is not a number");
  }
  return answer;
}

struct Task {
  std::vector<std::string> truth;              // label of each row
  std::map<std::string, std::string> classes;  // label -> what it stands for
  std::vector<std::string> names;              // package of each row
  std::vector<std::string> ours;
  std::vector<std::string> theirs;
  // Labels in the server's order of columns, and where liblinear has the same column.
  std::vector<std::string> labels;
  std::vector<size_t> their_column;
};

// A model of two classes has one output; the server gives {negative, positive}, and in liblinear the first label is the
// positive one. Several outputs keep liblinear's order.
void OrderLabels(const std::string& header, Task* task) {
  std::vector<std::string> labels = Words(header);
  if (labels.size() < 3 || labels[0] != "labels") Fail("the predictions do not begin with a line of labels");
  labels.erase(labels.begin());
  for (size_t i = 0; i < labels.size(); ++i) {
    task->their_column.push_back(labels.size() == 2 ? 1 - i : i);
    task->labels.push_back(labels[task->their_column.back()]);
  }
}

Task ReadTask(char** paths) {
  Task task;
  for (const std::string& line : ReadLines(paths[0])) task.truth.push_back(line.substr(0, line.find(' ')));
  for (const std::string& line : ReadLines(paths[1])) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) Fail(std::string(paths[1]) + ": \"" + line + "\" is not NUMBER NAME");
    task.classes[line.substr(0, space)] = line.substr(space + 1);
  }
  task.names = ReadLines(paths[2]);
  task.ours = ReadLines(paths[3]);
  task.theirs = ReadLines(paths[4]);
  if (task.theirs.empty()) Fail(std::string(paths[4]) + " is empty");
  OrderLabels(task.theirs.front(), &task);
  task.theirs.erase(task.theirs.begin());
  const size_t rows = task.truth.size();
  if (rows == 0 || task.names.size() != rows || task.ours.size() != rows || task.theirs.size() != rows) {
    Fail("there are " + std::to_string(rows) + " rows, " + std::to_string(task.names.size()) + " names, " +
         std::to_string(task.ours.size()) + " scores and " + std::to_string(task.theirs.size()) + " predictions");
  }
  return task;
}

double ProbabilityOf(const std::string& label, const Task& task, const Answer& ours) {
  const auto at = std::find(task.labels.begin(), task.labels.end(), label);
  if (at == task.labels.end()) Fail("the server answered label \"" + label + "\", which the model does not have");
  return ours.probabilities[static_cast<size_t>(at - task.labels.begin())];
}

void ShowRow(const Task& task, size_t row, const Answer& ours) {
  const auto name_of = [&](const std::string& label) {
    const auto at = task.classes.find(label);
    return at == task.classes.end() ? label : at->second;
  };
  const bool right = ours.label == task.truth[row];
  std::printf("  %-34.34s %-14s %.4f  %s%s\n", task.names[row].c_str(), name_of(ours.label).c_str(),
              ProbabilityOf(ours.label, task, ours),
              right ? "right" : "wrong: ", right ? "" : name_of(task.truth[row]).c_str());
}

struct Result {
  double accuracy = 0;
  double max_difference = 0;
};

// The largest difference of any probability; infinite if one is not a number.
double Difference(const Task& task, const Answer& ours, const Answer& theirs) {
  double largest = 0;
  for (size_t i = 0; i < task.labels.size(); ++i) {
    const double difference = std::fabs(ours.probabilities[i] - theirs.probabilities[task.their_column[i]]);
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

void CheckLabel(const Task& task, const Answer& ours, const Answer& theirs, const std::string& where) {
  if (ours.label == theirs.label) return;
  const double gap = ProbabilityOf(ours.label, task, ours) - ProbabilityOf(theirs.label, task, ours);
  if (!(std::fabs(gap) <= kTie)) {
    Fail(where + ": the server says label " + ours.label + ", liblinear says " + theirs.label);
  }
}

Result Compare(const Task& task) {
  const size_t rows = task.truth.size();
  const size_t step = std::max<size_t>(1, rows / kShownRows);
  size_t right = 0;
  Result result;
  std::printf("  %-34s %-14s %s\n", "package", "predicted", "probability");
  for (size_t row = 0; row < rows; ++row) {
    const std::string where = "row " + std::to_string(row + 1);
    const Answer ours = ParseAnswer(task.ours[row], task.labels.size(), where + " of the scores");
    const Answer theirs = ParseAnswer(task.theirs[row], task.labels.size(), where + " of the predictions");
    CheckLabel(task, ours, theirs, where);
    result.max_difference = std::max(result.max_difference, Difference(task, ours, theirs));
    if (ours.label == task.truth[row]) ++right;
    if (row % step == step / 2) ShowRow(task, row, ours);
  }
  result.accuracy = static_cast<double>(right) / static_cast<double>(rows);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: %s TEST CLASSES NAMES SCORES PREDICTIONS MIN_ACCURACY MAX_DIFFERENCE\n", argv[0]);
    return 2;
  }
  const Task task = ReadTask(argv + 1);
  const Result result = Compare(task);
  std::printf("rows=%zu accuracy=%.4f max_difference=%.2e\n", task.truth.size(), result.accuracy,
              result.max_difference);
  std::fflush(stdout);
  if (!(result.max_difference <= std::atof(argv[7]))) Fail("probabilities differ by more than " + std::string(argv[7]));
  if (!(result.accuracy >= std::atof(argv[6]))) Fail("the accuracy is below " + std::string(argv[6]));
  return 0;
}
