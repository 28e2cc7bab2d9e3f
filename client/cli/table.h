// Text in columns.

#ifndef WIDELANE_CLIENT_CLI_TABLE_H_
#define WIDELANE_CLIENT_CLI_TABLE_H_

#include <string>
#include <vector>

namespace widelane::cli {

// One line a row; columns are as wide as their longest cell, two blanks apart, the last without blanks behind it.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_TABLE_H_
