// The padding of a run's results.
void clear_column(uint row, uint rows, uint column) {
  do {
    result[row * p.out_stride + column] = 0.0;
    ++row;
  } while (row < rows && goes_on(row));
}
