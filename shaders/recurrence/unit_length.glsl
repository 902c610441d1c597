// What makes a unit vector of one whose squares have this sum.
float unit_scale(float squares) { return 1.0 / sqrt(squares + 1e-6); }
