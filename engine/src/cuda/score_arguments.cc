#include "cuda/score_arguments.h"

#include "cuda/launch_plan.h"

namespace widelane::cuda {

void SetRows(const BatchView& view, const BatchView& host, uint32_t rows, uint32_t first_entry,
             ScoreArguments& arguments) {
  arguments.rows = rows;
  arguments.first_row = 0;
  arguments.first_entry = first_entry;
  arguments.entries = host.row_begin[rows] - host.row_begin[0];
  arguments.group_begin = view.group_begin;
  arguments.lengths8 = view.lengths8;
  arguments.lengths16 = view.lengths16;
  arguments.row_begin = view.row_begin;
  arguments.indices16 = view.indices16;
  arguments.indices32 = view.indices32;
  arguments.values16 = view.values16;
  arguments.values32 = view.values32;
  arguments.row_max = view.row_max;
}

void SetResults(const BatchView& view, ScoreArguments& arguments) {
  arguments.raw = view.raw;
  arguments.scores = view.scores;
  arguments.best = view.best;
  arguments.best_outputs = view.best_outputs;
  arguments.best_scores = view.best_scores;
}

absl::StatusOr<std::unique_ptr<LongRows>> LongRows::Create(uint32_t entries, int device) {
  std::unique_ptr<LongRows> lists(new LongRows);
  absl::Status status = Keep(CreatePinnedBuffer<Piece>(MaxPieces(entries), device), lists->pieces_);
  status.Update(Keep(CreatePinnedBuffer<uint32_t>(MaxPieces(entries), device), lists->rows_));
  if (!status.ok()) return status;
  return lists;
}

void LongRows::Cut(const BatchView& batch, ScoreArguments& arguments) {
  if (batch.longest_row <= RowLimit(arguments.outputs)) return;
  Piece* pieces = pieces_.data() + pieces_used_;
  uint32_t* rows = rows_.data() + rows_used_;
  arguments.cut =
      CutLongRows(arguments.outputs, batch.row_begin, 0, arguments.rows, arguments.first_entry, pieces, rows);
  arguments.pieces = pieces;
  arguments.long_rows = rows;
  pieces_used_ += arguments.cut.pieces;
  rows_used_ += arguments.cut.long_rows;
}

}  // namespace widelane::cuda
