"""What reads rows, for a training or a model: blocks within a budget, with their labels and tasks."""
