// The Scoring service: Score and ScoreStream as raw bytes on completion queues (ScoreQueue), the rest by gRPC's own
// threads.

#ifndef WIDELANE_SERVER_FRONT_SCORING_SERVICE_H_
#define WIDELANE_SERVER_FRONT_SCORING_SERVICE_H_

#include <atomic>

#include "server/front/context.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane {

class ScoringService final
    : public v1::Scoring::WithRawMethod_Score<v1::Scoring::WithRawMethod_ScoreStream<v1::Scoring::Service>> {
 public:
  explicit ScoringService(FrontContext& context) : context_(context) {}

  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsReply* reply) override;
  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest* request,
                        v1::ModelInfo* reply) override;

  // Whether ListModels or GetModel is being answered.
  bool busy() const { return calls_.load(std::memory_order_acquire) > 0; }

 private:
  void FillInfo(const ServedModel& model, v1::ModelInfo& info) const;

  FrontContext& context_;
  std::atomic<int> calls_{0};
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_SCORING_SERVICE_H_
