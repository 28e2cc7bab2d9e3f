// Which model has had its turn longest ago. Knows only models that have batches or tasks in line; others have not had
// theirs for longer than any of these.
//
// All under the batcher's lock.

#ifndef WIDELANE_SERVER_BATCHING_MODEL_TURNS_H_
#define WIDELANE_SERVER_BATCHING_MODEL_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace widelane {

class LoadedModel;

class ModelTurns {
 public:
  struct Turns {
    const LoadedModel* model = nullptr;
    size_t batches = 0;   // open, waiting or running
    uint64_t opened = 0;  // when it last got a slab, and sent a batch: numbers that only grow
    uint64_t sent = 0;
  };

  Turns Of(const LoadedModel* model) const {
    for (const Turns& turns : turns_) {
      if (turns.model == model) return turns;
    }
    return {model};
  }
  void Opened(const LoadedModel* model) {
    Turns& turns = Entry(model);
    ++turns.batches;
    turns.opened = ++last_;
  }
  void Sent(const LoadedModel* model) { Entry(model).sent = ++last_; }
  // A batch is over; `keep` when tasks of the model are in line.
  void Ended(const LoadedModel* model, bool keep) {
    Turns& turns = Entry(model);
    if (--turns.batches > 0 || keep) return;
    turns = turns_.back();
    turns_.pop_back();
  }

 private:
  Turns& Entry(const LoadedModel* model) {
    for (Turns& turns : turns_) {
      if (turns.model == model) return turns;
    }
    turns_.push_back({model});
    return turns_.back();
  }

  std::vector<Turns> turns_;
  uint64_t last_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_BATCHING_MODEL_TURNS_H_
