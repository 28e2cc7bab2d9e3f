// Where the time of many calls went, stage by stage.

#ifndef WIDELANE_CLIENT_CLI_STAGE_TABLE_H_
#define WIDELANE_CLIENT_CLI_STAGE_TABLE_H_

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "widelane/client/client.h"

namespace widelane::cli {

class StageTable {
 public:
  void Add(const client::StageTimes& times);
  // One line a stage: the median of the calls and their sum, in milliseconds.
  std::string Format() const;

 private:
  std::vector<client::StageTimes> calls_;
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_STAGE_TABLE_H_
