"""The book as a course: editions of its exercises for students and teachers, and grading."""
