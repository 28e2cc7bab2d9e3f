// A load as a table for people and as JSON.

#ifndef WIDELANE_CLIENT_CLI_BENCH_SERVER_REPORT_H_
#define WIDELANE_CLIENT_CLI_BENCH_SERVER_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "client/cli/bench_load.h"
#include "client/cli/bench_requests.h"

namespace widelane::cli {

std::string LoadTable(const RequestOptions& requests, const LoadOptions& load, const LoadResult& result);
nlohmann::ordered_json LoadJson(const RequestOptions& requests, const LoadOptions& load, const LoadResult& result);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_SERVER_REPORT_H_
