#include "server/front/scoring_service.h"

#include <string>

#include "server/front/status_mapping.h"
#include "server/observe/call_scope.h"

namespace widelane {

namespace {

v1::ModelInfo::State ToProto(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return v1::ModelInfo::LOADING;
    case ModelState::kAvailable:
      return v1::ModelInfo::AVAILABLE;
    case ModelState::kFailed:
      return v1::ModelInfo::FAILED;
  }
  return v1::ModelInfo::STATE_UNSPECIFIED;
}

void FillLoaded(const Model& model, v1::ModelInfo& info) {
  info.set_features(model.features());
  info.set_outputs(model.outputs());
  info.set_link(LinkName(model.link()));
  for (const std::string& label : model.labels()) info.add_labels(label);
  info.set_weight_type(WeightTypeName(model.weight_type()));
  info.set_has_probabilities(model.has_probabilities());
  info.set_ignores_unknown_features(model.unknown_features() == UnknownFeatures::kIgnore);
  info.set_source(model.source());
  info.set_digest(model.digest());
}

// Counts a call while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int>& calls) : calls_(calls) { calls_.fetch_add(1, std::memory_order_acq_rel); }
  ~Counted() { calls_.fetch_sub(1, std::memory_order_acq_rel); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& calls_;
};

}  // namespace

void ScoringService::FillInfo(const ServedModel& model, v1::ModelInfo& info) const {
  const ModelState state = model.state();  // read once: what follows must agree with it
  info.set_name(model.file().name);
  info.set_version(model.version());
  info.set_state(ToProto(state));
  info.set_max_message_bytes(context_.config.limits.max_message_bytes);
  info.set_max_rows(context_.config.limits.max_request_rows);
  info.set_max_entries(context_.config.limits.max_request_entries);
  if (state == ModelState::kFailed) info.set_error(std::string(model.error().message()));
  if (state != ModelState::kAvailable) return;
  FillLoaded(model.loaded()->model(), info);
  for (const DeviceInfo& device : context_.engine.load(std::memory_order_acquire)->devices()) {
    info.add_devices(device.id);
  }
}

grpc::Status ScoringService::ListModels(grpc::ServerContext* /*context*/, const v1::ListModelsRequest* /*request*/,
                                        v1::ListModelsReply* reply) {
  const Counted counted(calls_);
  CallScope scope(context_.metrics, Method::kListModels);
  for (const auto& model : context_.registry.models()) FillInfo(*model, *reply->add_models());
  scope.Answer(grpc::StatusCode::OK);
  return grpc::Status::OK;
}

grpc::Status ScoringService::GetModel(grpc::ServerContext* /*context*/, const v1::GetModelRequest* request,
                                      v1::ModelInfo* reply) {
  const Counted counted(calls_);
  CallScope scope(context_.metrics, Method::kGetModel);
  const auto found = context_.registry.Find(request->model(), request->version());
  if (found.ok()) FillInfo(**found, *reply);
  grpc::Status status = ToGrpcStatus(found.status());
  scope.Answer(status.error_code());
  return status;
}

}  // namespace widelane
