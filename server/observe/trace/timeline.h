// A recording as a file in Chrome's JSON trace event format, which ui.perfetto.dev and chrome://tracing open.
// server/README.md, "Timeline", says what is in it.

#ifndef WIDELANE_SERVER_OBSERVE_TRACE_TIMELINE_H_
#define WIDELANE_SERVER_OBSERVE_TRACE_TIMELINE_H_

#include <vector>

#include "server/observe/trace/event_stream.h"
#include "server/observe/trace/recording.h"
#include "widelane/engine/device.h"

namespace widelane {

// Hands the file to `sink` piece by piece. `devices` are the engine's. False when the sink wanted no more.
bool WriteTimeline(const Recording& recording, const std::vector<DeviceInfo>& devices, TextSink sink);

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_TRACE_TIMELINE_H_
