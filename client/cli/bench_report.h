// What `widelane bench engine` says: tables for people, JSON for programs.

#ifndef WIDELANE_CLIENT_CLI_BENCH_REPORT_H_
#define WIDELANE_CLIENT_CLI_BENCH_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cli/bench_session.h"

namespace widelane::cli {

// One for each backend of the session.
using BackendMeasurements = std::vector<std::vector<BenchMeasurement>>;

// What is measured and on what: profile, CPU, GPUs.
std::string DescribeSession(const BenchSession& session);
nlohmann::ordered_json SessionJson(const BenchSession& session);

// One line for each backend and number of rows.
std::string MeasurementTable(const BenchSession& session, const BackendMeasurements& measurements);
nlohmann::ordered_json MeasurementJson(const BenchSession& session, const BackendMeasurements& measurements);

// What a reader of the table must know, a line each: backends left out, GPUs left out or failed.
std::string Remarks(const BenchSession& session);

// Stages' medians in microseconds, by name; those that took no time are left out.
nlohmann::ordered_json StagesJson(const StageTimes& stages);

// A number of microseconds with three or four digits that count.
std::string FormatMicroseconds(double microseconds);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_REPORT_H_
