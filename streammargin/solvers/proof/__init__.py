"""What proves how good an answer is: exact sums, bounds, and the best of them."""
