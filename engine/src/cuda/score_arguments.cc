#include "cuda/score_arguments.h"

#include "cuda/chunks.h"
#include "cuda/launch_plan.h"

namespace widelane::cuda {

void SetRows(const BatchView& view, const BatchView& batch, uint32_t first_row, uint32_t rows, uint32_t first_entry,
             ScoreArguments& arguments) {
  const BatchView rows_of = FromRow(view, first_row, 0);
  const uint32_t* begin = batch.row_begin + first_row;
  arguments.rows = rows;
  arguments.first_row = 0;
  arguments.first_entry = first_entry;
  arguments.entries = begin[rows] - begin[0];
  arguments.uniform_length = UniformLength(batch);
  arguments.uniform_begin = begin[0];
  if (arguments.uniform_length == 0) {
    arguments.group_begin = rows_of.group_begin;
    arguments.lengths8 = rows_of.lengths8;
    arguments.lengths16 = rows_of.lengths16;
    arguments.row_begin = rows_of.row_begin;
  }
  arguments.indices16 = rows_of.indices16;
  arguments.indices32 = rows_of.indices32;
  arguments.values16 = rows_of.values16;
  arguments.values32 = rows_of.values32;
  arguments.row_max = rows_of.row_max;
  arguments.context_sums = rows_of.context_sums;
  arguments.context_line = rows_of.context_line;
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
